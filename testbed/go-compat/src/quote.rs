//! Strings as Go's `%q` prints them.

/// A string as Go's `%q` prints it.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            c if u32::from(c) < 0x20 || c == '\u{7f}' => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c if is_print(c) => quoted.push(c),
            c if u32::from(c) > 0xffff => {
                quoted.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_print(c: char) -> bool {
    // Rust escapes the same characters, and marks too where nothing stands before them.
    matches!(c, ' '..='~') || !String::from_iter(['a', c]).escape_debug().any(|c| c == '{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_escape_what_does_not_print() {
        assert_eq!(quote("a{\u{e9}\u{1f600}e\u{301}"), "\"a{\u{e9}\u{1f600}e\u{301}\"");
        assert_eq!(
            quote("\u{1}\u{7f}\u{85}\u{a0}\u{200b}\u{2028}\u{e0001}"),
            r#""\x01\x7f\u0085\u00a0\u200b\u2028\U000e0001""#
        );
    }
}

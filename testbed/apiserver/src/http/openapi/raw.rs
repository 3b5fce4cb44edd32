//! Members of a JSON object as the text they are written in.
//!
//! The documents of the built-in kinds are megabytes that are served as they were vendored: they
//! are cut and joined here, and never read as values. Only text that is known to be valid JSON may
//! be given to it.

/// The members of an object in their order, each with its value's text.
#[must_use]
pub(super) fn members(object: &str) -> Vec<(&str, &str)> {
    let mut rest = inner(object);
    let mut found = Vec::new();
    while let Some(key_end) = end_of(rest) {
        let key = rest[..key_end].trim().trim_matches('"');
        let after = rest[key_end..].trim_start().trim_start_matches(':');
        let value_end = end_of(after).unwrap_or(after.len());
        found.push((key, after[..value_end].trim()));
        rest = after[value_end..].trim_start().trim_start_matches(',');
    }
    found
}

/// The value of one member.
#[must_use]
pub(super) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let found = members(object).into_iter().find(|(name, _)| *name == key);
    found.map(|(_, value)| value)
}

/// An object of members that are text already.
#[must_use]
pub(super) fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("{");
    for (key, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.push('"');
        text.push_str(key);
        text.push_str("\":");
        text.push_str(value);
    }
    text.push('}');
    text
}

fn inner(object: &str) -> &str {
    let object = object.trim();
    object
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or_default()
}

/// Where the value that `text` begins with ends; `None` when there is none.
fn end_of(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut begun, mut at) = (0_usize, false, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(bytes, at + 1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return begun.then_some(at),
            _ => {}
        }
        begun |= !byte.is_ascii_whitespace();
        at += 1;
    }
    begun.then_some(text.len())
}

/// Where the quote is that ends a string.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\');
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(special)) {
        at += next;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_cut_at_their_ends() {
        let text = r#"{"a":1,"b":{"c":"}\"{,"},"d":[1,{"e":null}],"f":"x"}"#;
        let found = members(text);
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["a", "b", "d", "f"]);
        assert_eq!(found[1].1, r#"{"c":"}\"{,"}"#);
        assert_eq!(object(found), text);
        assert!(members("{}").is_empty());
    }
}

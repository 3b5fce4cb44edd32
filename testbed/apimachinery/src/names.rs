//! The server's rules for names, label keys and label values, and what it says when they are broken.

const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const LABEL_KEY_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

// Every write comes by here several times, so the patterns above are only shown, not run.

/// Whether `text` begins and ends with an `edge` and has only what is `within` between.
fn is_made_of(text: &str, edge: fn(&u8) -> bool, within: fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(within)
}

fn is_dns_label(text: &str) -> bool {
    let edge = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    is_made_of(
        text,
        edge,
        |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'),
    )
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label_key(text: &str) -> bool {
    is_made_of(text, u8::is_ascii_alphanumeric, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
    })
}

/// The server's way to explain a pattern.
#[must_use]
pub fn regex_error(words: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples
        .iter()
        .map(|example| format!("'{example}', "))
        .collect();
    format!(
        "{words} (e.g. {}regex used for validation is '{pattern}')",
        examples.join(" or ")
    )
}

/// What a too long string is told.
#[must_use]
pub fn max_len_error(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// What is wrong with a DNS subdomain that is a name.
#[must_use]
pub fn dns_subdomain(value: &str) -> Vec<String> {
    subdomain(value, "characters")
}

/// The server counts bytes and in one place calls them characters.
fn subdomain(value: &str, unit: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push(format!("must be no more than 253 {unit}"));
    }
    if !is_dns_subdomain(value) {
        let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        errors.push(regex_error(words, DNS_SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// What is wrong with a DNS label.
#[must_use]
pub fn dns_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 characters".into());
    }
    if !is_dns_label(value) {
        if is_dns_subdomain(value) {
            errors.push("must not contain dots".into());
        } else {
            let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            errors.push(regex_error(words, DNS_LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

/// A name something will be appended to: its last dash is as good as a letter.
#[must_use]
pub fn mask_trailing_dash(name: &str) -> String {
    // The server cuts two bytes and puts one back; only the pattern is looked at afterwards.
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut kept: String = rest.to_owned();
            kept.pop();
            kept + "a"
        }
        _ => name.to_owned(),
    }
}

/// What is wrong with a name that is used as a segment of a path.
#[must_use]
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// What is wrong with a label key (a "qualified name").
#[must_use]
pub fn label_key(value: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let parts: Vec<&str> = value.split('/').collect();
    let mut errors = Vec::new();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".into());
            } else {
                errors.extend(
                    dns_subdomain(prefix)
                        .iter()
                        .map(|e| format!("prefix part {e}")),
                );
            }
            *name
        }
        _ => {
            let words = regex_error(LABEL_KEY_WORDS, LABEL_KEY, &examples);
            return vec![format!(
                "a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", max_len_error(63)));
    }
    if !is_label_key(name) {
        errors.push(format!(
            "name part {}",
            regex_error(LABEL_KEY_WORDS, LABEL_KEY, &examples)
        ));
    }
    errors
}

/// What is wrong with a label value.
#[must_use]
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(max_len_error(63));
    }
    if !value.is_empty() && !is_label_key(value) {
        let words = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        errors.push(regex_error(
            words,
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use aplomb_go_compat::statics::StaticRegex;

    #[test]
    fn names_are_judged_as_the_patterns_say() {
        let anchored = |pattern: &str| StaticRegex::new(&format!(r"\A{pattern}\z")).expect("good");
        let patterns = [DNS_LABEL, DNS_SUBDOMAIN, LABEL_KEY, LABEL_VALUE].map(anchored);
        let is_label_value: fn(&str) -> bool = |value| label_value(value).is_empty();
        let rules = [is_dns_label, is_dns_subdomain, is_label_key, is_label_value];
        let mut texts = vec![String::new()];
        for length in 0..5 {
            let shorter: Vec<String> = texts
                .iter()
                .filter(|t| t.chars().count() == length)
                .cloned()
                .collect();
            for text in shorter {
                texts
                    .extend(["a", "Z", "0", "-", "_", ".", "/", "é"].map(|c| format!("{text}{c}")));
            }
        }
        for text in &texts {
            for (rule, pattern) in rules.iter().zip(&patterns) {
                assert_eq!(rule(text), pattern.is_match(text), "{text:?}");
            }
        }
    }

    #[test]
    fn label_keys_are_judged_by_prefix_and_name() {
        assert!(label_key("example.com/a").is_empty());
        assert!(label_key("-a")[0].starts_with("name part must consist of"));
        assert!(label_key("x/y/z")[0].starts_with("a valid label key must consist of"));
        assert_eq!(label_key("/a"), ["prefix part must be non-empty"]);
        assert_eq!(label_key("a/").len(), 2);
    }

    #[test]
    fn a_dotted_name_is_no_label() {
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert!(dns_subdomain("a.b").is_empty());
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        assert!(dns_subdomain(&mask_trailing_dash("web-")).is_empty());
        assert!(!dns_subdomain(&mask_trailing_dash("-")).is_empty());
    }
}

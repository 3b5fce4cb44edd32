//! Anything as the YAML that stands in gnostic's messages: blocks, four spaces to a level.

use std::fmt::Write;

use serde_json::Value;

/// Words that would be read as something else than a string.
const WORDS: [&str; 12] = [
    "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan",
];

/// The value as a document.
#[must_use]
pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (at, (key, value)) in members.iter().enumerate() {
                pad(text, indent, at);
                let _ = write!(text, "{}:", scalar(key));
                member(text, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                pad(text, indent, at);
                text.push_str("- ");
                block(text, item, indent + 2);
                end_line(text);
            }
        }
        other => text.push_str(&leaf(other)),
    }
}

fn member(text: &mut String, value: &Value, indent: usize) {
    let nested = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        let deeper = indent + 4;
        let _ = write!(text, "\n{:deeper$}", "");
        block(text, value, deeper);
    } else {
        let _ = write!(text, " {}", leaf(value));
    }
    end_line(text);
}

/// The first line of a block stands where it was begun.
fn pad(text: &mut String, indent: usize, at: usize) {
    if at > 0 {
        let _ = write!(text, "{:indent$}", "");
    }
}

fn end_line(text: &mut String) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

fn leaf(value: &Value) -> String {
    match value {
        Value::String(string) => scalar(string),
        other => other.to_string(),
    }
}

/// A string as it is if that cannot be taken for anything else, or in quotes.
fn scalar(string: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let begins = string.starts_with(|c: char| c.is_ascii_alphabetic());
    let word = WORDS.contains(&string.to_lowercase().as_str());
    if begins && !word && string.chars().all(plain) {
        string.to_owned()
    } else {
        Value::from(string).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented_as_the_server_does() {
        let kinds = json!([{ "group": "", "kind": "Pod", "version": "v1" }, { "kind": "B" }]);
        let text = "- group: \"\"\n  kind: Pod\n  version: v1\n- kind: B\n";
        assert_eq!(write(&kinds), text);
        let nested = json!({ "a": { "b": ["c"] }, "d": [], "e": true, "f": "yes" });
        let text = "a:\n    b:\n        - c\nd: []\ne: true\nf: \"yes\"\n";
        assert_eq!(write(&nested), text);
        assert_eq!(write(&json!("atomic")), "atomic\n");
    }
}

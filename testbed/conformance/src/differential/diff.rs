//! Two masked answers side by side: what differs, in lines for a person, and the shape that tells
//! one kind of difference from another.

use std::collections::BTreeSet;

use serde_json::Value;

/// One place where two values differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Where, as a JSON pointer.
    pub path: String,
    /// The real server's value; `None` where it has none.
    pub real: Option<Value>,
    /// The box's.
    pub other: Option<Value>,
}

/// All places where two values differ.
#[must_use]
pub fn diff(real: &Value, other: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    walk("", Some(real), Some(other), &mut lines);
    lines
}

fn walk(path: &str, real: Option<&Value>, other: Option<&Value>, lines: &mut Vec<Line>) {
    match (real, other) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                walk(&format!("{path}/{name}"), a.get(name), b.get(name), lines);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                walk(&format!("{path}/{index}"), a.get(index), b.get(index), lines);
            }
        }
        (a, b) if a == b => {}
        (a, b) => lines.push(Line {
            path: path.to_owned(),
            real: a.cloned(),
            other: b.cloned(),
        }),
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| match value {
            Some(value) => value.to_string(),
            None => "(absent)".to_owned(),
        };
        write!(
            f,
            "{}\n  real {}\n  box  {}",
            self.path,
            show(&self.real),
            show(&self.other)
        )
    }
}

/// What differences of the same cause have in common: the first place, without indices and names,
/// and both messages without what is quoted in them.
#[must_use]
pub fn shape(lines: &[Line]) -> String {
    let Some(first) = lines.iter().find(|line| line.path == "/body/message").or(lines.first()) else {
        return String::new();
    };
    let segments: Vec<&str> = first
        .path
        .split('/')
        .map(|segment| if segment.parse::<u32>().is_ok() { "*" } else { segment })
        .take(7)
        .collect();
    let side = |value: &Option<Value>| match value {
        Some(Value::String(text)) => skeleton(text),
        Some(Value::Object(_)) => "{}".to_owned(),
        Some(Value::Array(_)) => "[]".to_owned(),
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    };
    format!(
        "{} | {} | {}",
        segments.join("/"),
        side(&first.real),
        side(&first.other)
    )
}

fn skeleton(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('"').enumerate() {
        if index % 2 == 0 {
            out.push_str(part);
        } else {
            out.push('_');
        }
    }
    out.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_is_named_by_its_path() {
        let lines = diff(&json!({"a": [1, {"b": 2}]}), &json!({"a": [1, {"b": 3}], "c": 4}));
        let paths: Vec<&str> = lines.iter().map(|line| line.path.as_str()).collect();
        assert_eq!(paths, ["/a/1/b", "/c"]);
    }

    #[test]
    fn the_shape_forgets_indices_and_names() {
        let one = diff(&json!([{"m": "no \"x\" here"}]), &json!([{"m": "ok"}]));
        let two = diff(
            &json!([{"m": "a"}, {"m": "no \"y\" here"}]),
            &json!([{"m": "a"}, {"m": "ok"}]),
        );
        assert_eq!(shape(&one), shape(&two));
    }
}

//! Paths: how one field, list item or set member is named inside an object.
//!
//! The order of elements is the one `fieldsV1` is written in, and their text is the one conflicts
//! are reported with.

use std::cmp::Ordering;
use std::fmt;

use aplomb_go_compat as go;
use serde_json::{Map, Value};

use super::value;

/// One step of a path.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a map or struct.
    Field(String),
    /// The item of an associative list with these key fields, sorted by name.
    Key(Vec<(String, Value)>),
    /// The member of a set with this value.
    Value(Value),
    /// A position in a list.
    Index(i64),
}

impl PathElement {
    /// A field by name.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// A list item by its key fields, in any order.
    #[must_use]
    pub fn key(mut fields: Vec<(String, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }

    /// Reads a key of `fieldsV1`; `None` for a kind of element that is not known (yet).
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err("key must be 2 characters long:".to_owned());
        }
        if bytes[1] != b':' {
            return Err(format!("missing colon: {text}"));
        }
        let content = text.get(2..).unwrap_or_default();
        match bytes[0] {
            b'f' => Ok(Some(Self::field(content))),
            b'v' => {
                let value = serde_json::from_str(content).map_err(|e| e.to_string())?;
                Ok(Some(Self::Value(value)))
            }
            b'k' => {
                let fields: Map<String, Value> = serde_json::from_str(content).map_err(|e| e.to_string())?;
                Ok(Some(Self::key(fields.into_iter().collect())))
            }
            b'i' => Ok(Some(Self::Index(
                content.parse().map_err(|_| format!("bad index: {text}"))?,
            ))),
            _ => Ok(None),
        }
    }

    /// The key of `fieldsV1` for this element.
    #[must_use]
    pub fn serialize(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Map<_, _> = fields.iter().cloned().collect();
                format!("k:{}", go::json(&Value::Object(fields)))
            }
            Self::Value(member) => format!("v:{}", go::json(member)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

fn compare_keys(a: &[(String, Value)], b: &[(String, Value)]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        let order = x.0.cmp(&y.0).then_with(|| value::compare(&x.1, &y.1));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, v)| format!("{name}={}", value::text(v)))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(member) => write!(f, "[={}]", value::text(member)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path as messages show it: `.spec.ports[port=80,protocol="TCP"].name`.
#[must_use]
pub fn path_text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn samples() -> Vec<PathElement> {
        vec![
            PathElement::field("a"),
            PathElement::field("b"),
            PathElement::key(vec![("name".into(), json!("a"))]),
            PathElement::key(vec![("protocol".into(), json!("TCP")), ("port".into(), json!(80))]),
            PathElement::Value(json!(1)),
            PathElement::Value(json!("a<b")),
            PathElement::Value(json!(true)),
            PathElement::Index(3),
        ]
    }

    #[test]
    fn elements_survive_a_round_trip() {
        for element in samples() {
            assert_eq!(PathElement::parse(&element.serialize()), Ok(Some(element)));
        }
    }

    #[test]
    fn key_fields_are_sorted() {
        assert_eq!(samples()[3].serialize(), r#"k:{"port":80,"protocol":"TCP"}"#);
    }

    #[test]
    fn fields_come_before_keys_before_values_before_positions() {
        let order = [0, 1, 2, 4, 5, 6, 7].map(|i| samples()[i].clone());
        for pair in order.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
    }

    #[test]
    fn text_is_what_conflicts_show() {
        let path = [PathElement::field("spec"), samples()[3].clone(), samples()[5].clone()];
        assert_eq!(path_text(&path), r#".spec[port=80,protocol="TCP"][="a<b"]"#);
    }

    #[test]
    fn unknown_kinds_are_skipped_and_bad_ones_refused() {
        assert_eq!(PathElement::parse("x:y"), Ok(None));
        for bad in ["f", "fa", "v:{", "k:1", "i:x", "k:{} {}"] {
            assert!(PathElement::parse(bad).is_err(), "{bad}");
        }
    }
}

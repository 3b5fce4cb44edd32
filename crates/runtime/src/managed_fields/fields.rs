//! A set of fields in the server's own notation, `fieldsV1`, as a tree.
//!
//! Independent of managers and schema: the notation itself shows which lists have keys.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of fields: a tree whose leaves are owned whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    inner: BTreeMap<FieldStep, FieldSet>,
}

/// One step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FieldStep {
    /// A field of an object.
    Field(Box<str>),
    /// The item of a list with these values in these fields.
    Item(BTreeMap<Box<str>, ItemKey>),
    /// The member of a list of scalars.
    Member(ItemKey),
    /// The item at this place.
    Index(usize),
}

impl FieldStep {
    /// The step to a field.
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The step to a list item identified by the fields `names`.
    pub(crate) fn item<'a>(item: &Value, names: impl Iterator<Item = &'a str>) -> Option<Self> {
        names
            .map(|name| Some((name.into(), ItemKey::from_value(item.get(name)?))))
            .collect::<Option<_>>()
            .map(Self::Item)
    }

    fn parse(text: &str) -> Option<Self> {
        let (sort, rest) = text.split_once(':')?;
        match sort {
            "f" => Some(Self::field(rest)),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let keys = keys.into_iter();
                Some(Self::Item(
                    keys.map(|(name, value)| (name.into(), ItemKey::from_value(&value)))
                        .collect(),
                ))
            }
            "v" => {
                let member: Value = serde_json::from_str(rest).ok()?;
                Some(Self::Member(ItemKey::from_value(&member)))
            }
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// The part of `value` at this step.
    pub(crate) fn resolve<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Field(name) => value.get(&**name),
            _ => value.as_array()?.get(self.position(value)?),
        }
    }

    /// The position in a list at this step.
    pub(crate) fn position(&self, list: &Value) -> Option<usize> {
        let mut items = list.as_array()?.iter();
        match self {
            Self::Field(_) => None,
            Self::Index(index) => Some(*index),
            Self::Item(keys) => items.position(|item| {
                keys.iter()
                    .all(|(name, wanted)| item.get(&**name).is_some_and(|it| wanted.matches(it)))
            }),
            Self::Member(wanted) => items.position(|item| wanted.matches(item)),
        }
    }
}

/// A value that identifies an item of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ItemKey {
    /// A text.
    Text(Box<str>),
    /// Anything else, as its JSON, which is short.
    Other(Box<str>),
}

impl ItemKey {
    /// The scalar of a JSON value.
    pub(crate) fn from_value(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.as_str().into()),
            other => Self::Other(other.to_string().into()),
        }
    }

    /// Whether it equals the scalar `value`.
    pub(crate) fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text(text), Value::String(other)) => **text == **other,
            (Self::Text(_), _) | (_, Value::String(_)) => false,
            (Self::Other(_), other) => *self == Self::from_value(other),
        }
    }
}

impl FieldSet {
    /// Reads `fieldsV1`; `None` for an unknown notation.
    pub(super) fn parse(text: &Value) -> Option<Self> {
        let mut inner = BTreeMap::new();
        for (step, below) in text.as_object()? {
            // A dot owns the place itself; that matters only to the server, when it removes the place.
            if step != "." {
                inner.insert(FieldStep::parse(step)?, Self::parse(below)?);
            }
        }
        Some(Self { inner })
    }

    /// Whether the field is owned whole: a scalar, an atomic list or map, or an empty map.
    pub(crate) fn is_leaf(&self) -> bool {
        self.inner.is_empty()
    }

    /// The set one step further down.
    pub(crate) fn child(&self, step: &FieldStep) -> Option<&Self> {
        self.inner.get(step)
    }

    /// All steps from here.
    pub(crate) fn steps(&self) -> impl ExactSizeIterator<Item = (&FieldStep, &Self)> {
        self.inner.iter()
    }

    /// Adds the fields of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        for (step, below) in other.inner {
            self.inner.entry(step).or_default().merge(below);
        }
    }

    /// Only the owned parts of `value`: the fields its owner would have to apply again to change nothing.
    pub(crate) fn extract(&self, value: &Value) -> Value {
        if self.is_leaf() {
            return value.clone();
        }
        match value {
            Value::Array(_) => self.extract_items(value),
            _ => self.extract_members(value),
        }
    }

    fn extract_members(&self, value: &Value) -> Value {
        let owned = self.inner.iter().filter_map(|(step, below)| match step {
            FieldStep::Field(name) => Some((name.to_string(), below.extract(step.resolve(value)?))),
            _ => None,
        });
        Value::Object(owned.collect())
    }

    /// In the order of the list, which an apply must not change.
    fn extract_items(&self, list: &Value) -> Value {
        let mut owned: Vec<(usize, Value)> = self
            .inner
            .iter()
            .filter_map(|(step, below)| {
                let place = step.position(list)?;
                Some((place, below.extract(list.get(place)?)))
            })
            .collect();
        owned.sort_by_key(|(place, _)| *place);
        Value::Array(owned.into_iter().map(|(_, item)| item).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(text: &Value) -> FieldSet {
        FieldSet::parse(text).expect("fieldsV1")
    }

    #[test]
    fn every_sort_of_step_leads_somewhere() {
        let list = json!([{"name": "a", "port": 80}, {"name": "b"}]);
        let by_key = FieldStep::parse(r#"k:{"name":"b"}"#).expect("a step");
        assert_eq!(by_key.resolve(&list), Some(&json!({"name": "b"})));
        let by_place = FieldStep::parse("i:0").expect("a step");
        assert_eq!(by_place.resolve(&list), Some(&list[0]));
        let member = FieldStep::parse(r#"v:"x""#).expect("a step");
        assert_eq!(member.resolve(&json!(["y", "x"])), Some(&json!("x")));
        assert_eq!(FieldStep::parse("z:1"), None);
        assert_eq!(FieldStep::parse("plain"), None);
    }

    #[test]
    fn an_unknown_notation_is_not_guessed_at() {
        assert_eq!(FieldSet::parse(&json!({"f:a": {"q:b": {}}})), None);
        assert_eq!(FieldSet::parse(&json!("text")), None);
    }

    #[test]
    fn extracting_keeps_what_is_owned_in_its_order() {
        let owned = fields(&json!({
            "f:count": {},
            "f:conditions": {
                "k:{\"type\":\"A\"}": {".": {}, "f:type": {}, "f:status": {}},
                "k:{\"type\":\"Z\"}": {".": {}, "f:type": {}, "f:status": {}},
            },
            "f:gone": {},
        }));
        let status = json!({
            "count": 3,
            "other": "theirs",
            "conditions": [
                {"type": "Z", "status": "True"},
                {"type": "Theirs", "status": "True"},
                {"type": "A", "status": "False", "more": 1},
            ],
        });
        let kept = json!({
            "count": 3,
            "conditions": [{"type": "Z", "status": "True"}, {"type": "A", "status": "False"}],
        });
        assert_eq!(owned.extract(&status), kept);
    }
}

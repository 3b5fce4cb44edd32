//! The objects that an overview is made from, and their names.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Namespace and name of an object, as JSON and pages show them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectName {
    /// The name of an object that was read as JSON.
    #[must_use]
    pub fn from_object(object: &Value) -> Self {
        let meta = &object["metadata"];
        Self {
            namespace: meta["namespace"].as_str().map(str::to_owned),
            name: value_text(&meta["name"]),
        }
    }

    /// The journal's key for it.
    #[must_use]
    pub fn object_ref(&self, kind: &str) -> aplomb::ObjectRef {
        aplomb::ObjectRef {
            kind: kind.into(),
            key: aplomb::ObjectKey::new(self.namespace.as_deref(), &self.name),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// Whole objects as JSON, by kind. A kind that is not watched is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectMap(BTreeMap<String, Vec<Value>>);

impl ObjectMap {
    /// Adds all objects of `kind`.
    pub fn insert(&mut self, kind: &str, objects: Vec<Value>) {
        self.0.insert(kind.to_owned(), objects);
    }

    /// The objects of `kind`; empty if it is not watched.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> &[Value] {
        self.watched(kind).unwrap_or_default()
    }

    /// The objects of `kind`; `None` if it is not watched.
    pub(crate) fn watched(&self, kind: &str) -> Option<&[Value]> {
        self.0.get(kind).map(Vec::as_slice)
    }

    /// The object of this kind and name.
    #[must_use]
    pub fn get(&self, kind: &str, name: &ObjectName) -> Option<&Value> {
        self.of_kind(kind)
            .iter()
            .find(|it| ObjectName::from_object(it) == *name)
    }

    /// Every watched kind, with its objects.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &[Value])> {
        self.0.iter().map(|(kind, all)| (&**kind, &**all))
    }
}

/// The status of an object as its type; the default one if it cannot be parsed.
pub(super) fn parse_status<T: DeserializeOwned + Default>(object: &Value) -> T {
    T::deserialize(&object["status"]).unwrap_or_default()
}

pub(super) fn find_condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == kind)
}

pub(super) fn creation_time(object: &Value) -> Option<Timestamp> {
    object["metadata"]["creationTimestamp"].as_str()?.parse().ok()
}

pub(super) fn value_text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

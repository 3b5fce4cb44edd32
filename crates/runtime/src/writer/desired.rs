//! Converts a typed object to the request body: only the fields that its author has set.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorClass, Result};
use crate::key::ObjectKey;

use super::kind::ErasedKind;

/// Fields of the metadata that the server sets.
const SERVER_FIELDS: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
];

/// The owner of a child, as in its owner reference.
#[derive(Clone, Debug)]
pub(crate) struct OwnerRef<'a> {
    pub(crate) kind: &'a ErasedKind,
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: &'a str,
}

/// An object to apply, and its key.
#[derive(Clone, Debug)]
pub(crate) struct DesiredObject {
    pub(crate) key: ObjectKey,
    pub(crate) body: Value,
    /// The version it was read at, if it was made from an object that had been read.
    pub(crate) version: Option<String>,
}

impl DesiredObject {
    /// An apply of `object`. Absent values are not sent, the status is written elsewhere,
    /// and a namespaced object without a namespace goes to the namespace of its owner.
    pub(crate) fn new<K: Serialize>(object: &K, kind: &ErasedKind, beside: Option<&str>) -> Result<Self> {
        let mut body = serde_json::to_value(object)?;
        drop_nulls(&mut body);
        let Value::Object(fields) = &mut body else {
            return Err(invalid_error(kind, "is not an object"));
        };
        fields.remove("status");
        fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
        fields.insert("kind".to_owned(), json!(kind.name()));
        let meta = fields
            .entry("metadata")
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .ok_or_else(|| invalid_error(kind, "has invalid metadata"))?;
        let version = meta.get("resourceVersion").and_then(Value::as_str);
        let version = version.map(str::to_owned);
        SERVER_FIELDS.iter().for_each(|field| drop(meta.remove(*field)));
        let key = take_key(meta, kind, beside)?;
        Ok(Self { key, body, version })
    }

    /// Makes `owner` the controller, if the API allows a reference: within a namespace,
    /// or from a cluster-scoped owner. Returns whether it did.
    pub(crate) fn set_controller(&mut self, owner: &OwnerRef<'_>) -> bool {
        if owner.key.namespace.is_some() && owner.key.namespace != self.key.namespace {
            return false;
        }
        let references = self.body["metadata"]
            .as_object_mut()
            .expect("metadata is an object by construction")
            .entry("ownerReferences")
            .or_insert_with(|| json!([]));
        if let Value::Array(references) = references {
            references.retain(|other| other["uid"] != owner.uid);
            references.push(json!({
                "apiVersion": owner.kind.api_version(),
                "kind": owner.kind.name(),
                "name": &*owner.key.name,
                "uid": owner.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }));
        }
        true
    }
}

fn take_key(meta: &mut Map<String, Value>, kind: &ErasedKind, beside: Option<&str>) -> Result<ObjectKey> {
    let text = |meta: &Map<String, Value>, field: &str| meta.get(field).and_then(Value::as_str).map(str::to_owned);
    let Some(name) = text(meta, "name").filter(|name| !name.is_empty()) else {
        return Err(invalid_error(kind, "has no metadata.name"));
    };
    if kind.is_cluster_scoped() {
        meta.remove("namespace");
        return Ok(ObjectKey::new(None, &name));
    }
    let namespace = text(meta, "namespace").or_else(|| beside.map(str::to_owned));
    let Some(namespace) = namespace else {
        return Err(invalid_error(kind, "has no metadata.namespace and its owner has none"));
    };
    meta.insert("namespace".to_owned(), json!(namespace));
    Ok(ObjectKey::new(Some(&namespace), &name))
}

fn invalid_error(kind: &ErasedKind, what: &str) -> Error {
    Error::new(ErrorClass::Invalid, format!("desired {} {what}", kind.name()))
}

/// `None` in a Rust type means an unset field, but JSON null would be a value.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    fn config_map(metadata: &Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": metadata})).expect("a ConfigMap")
    }

    #[test]
    fn only_declared_fields_are_sent() {
        let read = config_map(&json!({
            "name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": null,
            "managedFields": [], "labels": {"x": "y"},
        }));
        let desired = DesiredObject::new(&read, &ErasedKind::for_resource::<ConfigMap>(), Some("team")).expect("fine");
        let sent = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "team", "labels": {"x": "y"}},
        });
        assert_eq!(desired.body, sent);
        assert_eq!(desired.key, ObjectKey::new(Some("team"), "a"));
    }

    #[test]
    fn an_object_without_a_name_or_namespace_is_refused() {
        let kind = ErasedKind::for_resource::<ConfigMap>();
        let nameless = DesiredObject::new(&config_map(&json!({})), &kind, Some("team"));
        assert_eq!(nameless.expect_err("refused").class(), ErrorClass::Invalid);
        let homeless = DesiredObject::new(&config_map(&json!({"name": "a"})), &kind, None);
        assert_eq!(homeless.expect_err("refused").class(), ErrorClass::Invalid);
    }

    #[test]
    fn a_reference_is_set_only_where_the_api_allows_one() {
        let kind = ErasedKind::for_resource::<ConfigMap>();
        let key = ObjectKey::new(Some("team"), "owner");
        let owner = OwnerRef {
            kind: &kind,
            key: &key,
            uid: "u1",
        };
        let mut child = DesiredObject::new(&config_map(&json!({"name": "a"})), &kind, Some("team")).expect("fine");
        assert!(child.set_controller(&owner));
        assert!(child.set_controller(&owner));
        assert_eq!(
            child.body["metadata"]["ownerReferences"].as_array().map(Vec::len),
            Some(1)
        );
        let space: Namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("one");
        let mut space =
            DesiredObject::new(&space, &ErasedKind::for_resource::<Namespace>(), Some("team")).expect("fine");
        assert!(!space.set_controller(&owner));
    }
}

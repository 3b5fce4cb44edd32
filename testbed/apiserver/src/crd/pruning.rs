//! Removal of what a schema does not know: unknown fields, and nulls that stand for "not set".
//!
//! The paths of removed fields are returned in the server's order, for `fieldValidation`.

use serde_json::Value;

use super::structural::Structural;

/// Removes unknown fields of a whole resource; apiVersion, kind and metadata stay.
pub fn prune_resource(object: &mut Value, schema: &Structural) -> Vec<String> {
    let mut pruner = Pruner { unknown: Vec::new() };
    if schema.extensions.preserve_unknown_fields {
        pruner.keep(object, schema, "", true);
    } else {
        pruner.prune_known(object, schema, "", true);
    }
    pruner.unknown.sort();
    pruner.unknown
}

/// Removes unknown fields of a value that is not a whole resource.
pub fn prune_value(value: &mut Value, schema: &Structural) {
    Pruner { unknown: Vec::new() }.prune(value, Some(schema), "");
}

/// Removes null members whose schema is not nullable and has no default.
pub fn prune_nulls(value: &mut Value, schema: Option<&Structural>) {
    match value {
        Value::Object(map) => {
            map.retain(|key, member| {
                let child = schema.and_then(|s| s.child(key));
                !(member.is_null() && child.is_some_and(|s| !s.nullable && s.default.is_none()))
            });
            for (key, member) in map.iter_mut() {
                prune_nulls(member, schema.and_then(|s| s.child(key)));
            }
        }
        Value::Array(items) => {
            let child = schema.and_then(|s| s.items.as_deref());
            for item in items {
                prune_nulls(item, child);
            }
        }
        _ => {}
    }
}

struct Pruner {
    unknown: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, schema: Option<&Structural>, path: &str) {
        match schema {
            Some(schema) if schema.extensions.preserve_unknown_fields => {
                self.keep(value, schema, path, schema.extensions.embedded_resource);
            }
            Some(schema) => self.prune_known(value, schema, path, schema.extensions.embedded_resource),
            None => self.prune_all(value, path),
        }
    }

    fn prune_all(&mut self, value: &mut Value, path: &str) {
        match value {
            Value::Object(map) => {
                self.unknown.extend(map.keys().map(|key| join(path, key)));
                map.clear();
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune_all(item, &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }

    fn prune_known(&mut self, value: &mut Value, schema: &Structural, path: &str, is_resource: bool) {
        match value {
            Value::Object(map) => map.retain(|key, member| {
                if is_resource && is_meta(key) {
                    return true;
                }
                let at = join(path, key);
                if let Some(property) = schema.properties.get(key) {
                    self.prune(member, Some(property), &at);
                } else if schema.additional.is_some() {
                    self.prune(member, schema.additional_schema(), &at);
                } else {
                    self.unknown.push(at);
                    return false;
                }
                true
            }),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune(item, schema.items.as_deref(), &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }

    /// Below `x-kubernetes-preserve-unknown-fields` only what is specified again is pruned.
    fn keep(&mut self, value: &mut Value, schema: &Structural, path: &str, is_resource: bool) {
        match value {
            Value::Object(map) => {
                for (key, member) in map.iter_mut().filter(|(key, _)| !(is_resource && is_meta(key))) {
                    if let Some(property) = schema.properties.get(key) {
                        self.prune(member, Some(property), &join(path, key));
                    } else if schema.additional.is_some() {
                        self.prune(member, schema.additional_schema(), &join(path, key));
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items.as_deref() else {
                    return;
                };
                let is_resource = schema.extensions.embedded_resource;
                for (index, item) in items.iter_mut().enumerate() {
                    self.keep(item, schema, &format!("{path}[{index}]"), is_resource);
                }
            }
            _ => {}
        }
    }
}

fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

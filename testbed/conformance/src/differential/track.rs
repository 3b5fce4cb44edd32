//! What one server has said so far: the last state of each object, its versions and its UID.
//!
//! This is the only way an answer may influence a later request.

use std::collections::BTreeMap;

use serde_json::Value;

/// One object of one storage place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Plural and group.
    pub storage: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Key {
    /// A key of its parts.
    #[must_use]
    pub fn new(storage: &str, namespace: &str, name: &str) -> Self {
        let [storage, namespace, name] = [storage, namespace, name].map(str::to_owned);
        Self {
            storage,
            namespace,
            name,
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.storage, self.namespace, self.name)
    }
}

#[derive(Clone, Debug, Default)]
struct Known {
    object: Option<Value>,
    version: String,
    older: String,
    uid: String,
}

/// Everything one server has said.
#[derive(Clone, Debug, Default)]
pub struct Tracked {
    objects: BTreeMap<Key, Known>,
    tokens: BTreeMap<String, String>,
    list_versions: BTreeMap<String, String>,
}

impl Tracked {
    /// The last state seen of an object that may still exist.
    #[must_use]
    pub fn object(&self, key: &Key) -> Option<Value> {
        self.objects.get(key)?.object.clone()
    }

    /// The server showed this state of an object.
    pub fn saw(&mut self, key: Key, object: &Value) {
        let known = self.objects.entry(key).or_default();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or("").to_owned();
        let version = text("resourceVersion");
        if version != known.version {
            known.older = std::mem::replace(&mut known.version, version);
        }
        known.uid = text("uid");
        known.object = Some(object.clone());
    }

    /// The object is gone; its version and UID stay known.
    pub fn gone(&mut self, key: &Key) {
        if let Some(known) = self.objects.get_mut(key) {
            known.object = None;
        }
    }

    /// Nothing is known of the object any more.
    pub fn forget(&mut self, key: &Key) {
        self.objects.remove(key);
    }

    /// The server answered a list.
    pub fn listed(&mut self, scope: &str, list: &Value) {
        let text = |field: &str| list["metadata"][field].as_str().unwrap_or("").to_owned();
        self.tokens.insert(scope.to_owned(), text("continue"));
        self.list_versions.insert(scope.to_owned(), text("resourceVersion"));
    }

    /// Puts this server's own word in the place of a `$` name.
    #[must_use]
    pub fn fill(&self, key: Option<&Key>, scope: &str, text: &str) -> String {
        let known = key.and_then(|key| self.objects.get(key));
        let or = |value: Option<&String>, default: &str| match value {
            Some(value) if !value.is_empty() => value.clone(),
            _ => default.to_owned(),
        };
        match text {
            "$version" => or(known.map(|known| &known.version), "1"),
            "$older" => or(known.map(|known| &known.older), "1"),
            "$uid" => or(known.map(|known| &known.uid), "00000000-0000-4000-8000-0000000000aa"),
            "$continue" => or(self.tokens.get(scope), ""),
            "$listed" => or(self.list_versions.get(scope), "0"),
            _ => text.to_owned(),
        }
    }

    /// The same for every string of a body.
    pub fn fill_all(&self, key: Option<&Key>, scope: &str, body: &mut Value) {
        match body {
            Value::String(text) if text.starts_with('$') => *text = self.fill(key, scope, text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_all(key, scope, item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.fill_all(key, scope, value));
            }
            _ => {}
        }
    }
}

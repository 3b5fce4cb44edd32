//! `metadata.managedFields`: its entries read, written, put in order and kept few.

use std::collections::BTreeMap;

use aplomb_go_compat as go;
use serde_json::{Map, Value, json};

use super::fields_v1;
use super::time;
use super::update::{Managers, VersionedSet};

/// At most this many entries of updates are kept apart.
const MAX_UPDATE_MANAGERS: usize = 10;

/// Whose name the oldest updates are kept under.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// What makes two entries of `managedFields` the same owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// Name of the manager.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// Only for updates: an applier is the same in all versions.
    pub api_version: String,
    /// `status`, or empty.
    pub subresource: String,
}

impl ManagerId {
    /// Somebody who updates.
    #[must_use]
    pub fn updater(manager: &str, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.to_owned(),
            operation: "Update".to_owned(),
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Somebody who applies.
    #[must_use]
    pub fn applier(manager: &str, subresource: &str) -> Self {
        let operation = "Apply".to_owned();
        Self {
            operation,
            ..Self::updater(manager, "", subresource)
        }
    }

    /// The JSON the server knows an owner by; owners are put in order by it.
    #[must_use]
    pub fn identifier(&self) -> String {
        let mut out = "{".to_owned();
        for (name, value) in [
            ("manager", &self.manager),
            ("operation", &self.operation),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ] {
            if !value.is_empty() {
                out.push_str(if out.len() > 1 { ",\"" } else { "\"" });
                out.push_str(name);
                out.push_str("\":");
                out.push_str(&go::json(&Value::String(value.clone())));
            }
        }
        out.push('}');
        out
    }
}

/// The owners of an object and when each last changed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// Who owns what.
    pub fields: Managers,
    /// RFC 3339, in UTC. An applier that changed nothing has none.
    pub times: BTreeMap<ManagerId, String>,
}

/// The entries of an object, if it has the list at all.
#[must_use]
pub fn entries(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

/// Whether a client asks to forget all owners: by one empty entry, or by an empty list, which is
/// the same as no list in a custom resource.
#[must_use]
pub fn is_reset(object: &Value, custom: bool) -> bool {
    let known = [
        "manager",
        "operation",
        "apiVersion",
        "time",
        "fieldsType",
        "fieldsV1",
        "subresource",
    ];
    let is_empty = |entry: &Value| {
        known
            .iter()
            .all(|name| entry.get(name).is_none_or(|v| v.is_null() || v == ""))
    };
    match entries(object).map(Vec::as_slice) {
        Some([]) => !custom,
        Some([only]) => is_empty(only),
        _ => false,
    }
}

/// Reads the entries of an object.
///
/// # Errors
/// What is wrong with them.
pub fn decode(object: &Value) -> Result<Managed, String> {
    let mut managed = Managed::default();
    for (index, entry) in entries(object).into_iter().flatten().enumerate() {
        let (id, owned) = decode_entry(index, entry)?;
        managed.times.remove(&id);
        if let Some(time) = time::normalize(text(entry, "time")) {
            managed.times.insert(id.clone(), time);
        }
        managed.fields.insert(id, owned);
    }
    Ok(managed)
}

fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn decode_entry(index: usize, entry: &Value) -> Result<(ManagerId, VersionedSet), String> {
    let operation = text(entry, "operation");
    let applied = match operation {
        "Apply" => true,
        "Update" => false,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text(entry, "apiVersion").to_owned();
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    let place = format_args!("in managed fields entry {index}");
    match text(entry, "fieldsType") {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType {place}")),
        bad => return Err(format!("invalid fieldsType \"{bad}\" {place}")),
    }
    let id = ManagerId {
        manager: text(entry, "manager").to_owned(),
        operation: operation.to_owned(),
        api_version: if applied { String::new() } else { api_version.clone() },
        subresource: text(entry, "subresource").to_owned(),
    };
    let owned = VersionedSet {
        set: fields_v1::decode(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
        api_version,
        applied,
    };
    Ok((id, owned))
}

/// Takes the entries out of an object.
pub fn clear(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Writes the owners into an object, or takes the list out where there are none.
pub fn encode(managed: &Managed, object: &mut Value) {
    clear(object);
    if managed.fields.is_empty() {
        return;
    }
    let mut sorted: Vec<_> = managed.fields.iter().collect();
    sorted.sort_by_cached_key(|&(id, owned)| {
        (
            operation(id, owned),
            seconds(managed, id),
            &id.manager,
            &owned.api_version,
            &id.subresource,
        )
    });
    let entries = sorted
        .into_iter()
        .map(|(id, owned)| encode_entry(managed, id, owned))
        .collect();
    if let Some(object) = object.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }
}

fn operation<'a>(id: &'a ManagerId, owned: &VersionedSet) -> &'a str {
    if owned.applied { "Apply" } else { &id.operation }
}

fn seconds(managed: &Managed, id: &ManagerId) -> i64 {
    let time = managed.times.get(id).and_then(|time| time::seconds(time));
    time.unwrap_or(0)
}

fn encode_entry(managed: &Managed, id: &ManagerId, owned: &VersionedSet) -> Value {
    let mut entry = Map::new();
    let mut state = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name.to_owned(), value.into());
        }
    };
    state("manager", &id.manager);
    state("operation", operation(id, owned));
    state("apiVersion", &owned.api_version);
    state("time", managed.times.get(id).map_or("", String::as_str));
    state("fieldsType", "FieldsV1");
    state("subresource", &id.subresource);
    entry.insert("fieldsV1".to_owned(), fields_v1::encode(&owned.set));
    Value::Object(entry)
}

impl Managed {
    /// Folds the oldest updates of each version into one entry until few enough are left.
    pub fn cap_updates(&mut self) {
        let mut updaters: Vec<ManagerId> = self
            .fields
            .iter()
            .filter(|(_, owned)| !owned.applied)
            .map(|(id, _)| id.clone())
            .collect();
        if updaters.len() <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort_by_cached_key(|id| (seconds(self, id), id.identifier()));
        let mut left = updaters.len();
        let mut first_of: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if left <= MAX_UPDATE_MANAGERS {
                return;
            }
            let Some(owned) = self.fields.get(&id).cloned() else {
                continue;
            };
            let Some(first) = first_of.get(&owned.api_version) else {
                first_of.insert(owned.api_version, id);
                continue;
            };
            self.fold(&id, &owned, first);
            left -= 1;
        }
    }

    fn fold(&mut self, id: &ManagerId, owned: &VersionedSet, first: &ManagerId) {
        let bucket = ManagerId::updater(ANCIENT_CHANGES, &owned.api_version, "");
        if !self.fields.contains_key(&bucket)
            && let Some(oldest) = self.fields.remove(first)
        {
            self.fields.insert(bucket.clone(), oldest);
        }
        if let Some(old) = self.fields.get_mut(&bucket) {
            old.set = owned.set.union(&old.set);
        }
        // The server forgets the bucket itself where it is not the oldest entry; so do we.
        self.fields.remove(id);
        match self.times.get(id).cloned() {
            Some(time) => self.times.insert(bucket, time),
            None => self.times.remove(&bucket),
        };
    }
}

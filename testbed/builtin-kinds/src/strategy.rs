//! The one strategy of all built-in kinds: the vendored description and the kind's own rules
//! behind the [`Strategy`] contract.

use std::sync::{Arc, OnceLock};

use aplomb_apimachinery::field::{FieldError, go_quote};
use aplomb_apimachinery::resource::{Column, Decoded, Part, PatchMeta, RowOrder, Strategy};
use aplomb_apimachinery::status::ApiError;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::data::{self, Entry};
use super::value::{at, restore, set, text};
use super::{autoscaling, decode, encode, events, patch_meta, scheme, services, unstructured};

/// How objects of a built-in kind behave.
#[derive(Debug)]
pub(super) struct BuiltinStrategy {
    entry: &'static Entry,
    behaviour: &'static KindBehavior,
    /// The Go type objects are read as.
    go_type: String,
    has_status: bool,
    schema: OnceLock<Value>,
}

impl BuiltinStrategy {
    pub(super) fn new(entry: &'static Entry, behaviour: &'static KindBehavior) -> Self {
        let has_status = entry.subresources.iter().any(|sub| sub.name == "status");
        Self {
            entry,
            behaviour,
            go_type: entry.go_type(),
            has_status,
            schema: OnceLock::new(),
        }
    }

    /// What was read, with the version and the kind it was read as.
    fn typed(&self, mut object: Value, forgets_owners: bool) -> Value {
        let api_version = self.entry.api_version();
        set(&mut object, &["apiVersion"], api_version.into());
        set(&mut object, &["kind"], self.entry.kind.as_str().into());
        if forgets_owners {
            set(&mut object, &["metadata", "managedFields"], json!([{}]));
        }
        object
    }

    /// Moves the generation when something that counts differs from `old`.
    fn move_generation(&self, object: &mut Value, old: &Value) {
        let paths = self.behaviour.generation;
        if paths.is_empty() {
            return;
        }
        let moved = paths.iter().any(|path| !same(at(object, path), at(old, path)));
        let generation = at(old, &["metadata", "generation"]).as_i64().unwrap_or(0) + i64::from(moved);
        if generation > 0 {
            set(object, &["metadata", "generation"], generation.into());
        }
    }
}

impl Strategy for BuiltinStrategy {
    fn decode(&self, body: Value) -> Result<Decoded, ApiError> {
        scheme::check(self.entry, &body)?;
        let forgets = forgets_owners(&body);
        let read = decode::read(body, &self.go_type)
            .map_err(|why| scheme::unhandled(&self.entry.kind, &self.entry.version, self.entry, &why))?;
        let object = self.typed(read.object, forgets);
        Ok(Decoded {
            object,
            unknown: read.unknown,
        })
    }

    fn convert(&self, merged: Value) -> Result<Value, ApiError> {
        let namespace = text(&merged, &["metadata", "namespace"]).to_owned();
        let name = text(&merged, &["metadata", "name"]).to_owned();
        let object = decode::convert(merged, &self.go_type)
            .map_err(|why| scheme::unconverted(self.entry, (&namespace, &name), &why))?;
        Ok(self.typed(object, false))
    }

    fn patch_meta(&self) -> Option<Box<dyn PatchMeta + '_>> {
        Some(patch_meta::of(&self.go_type, self.openapi()))
    }

    fn convert_patched(&self, merged: Value) -> Result<Decoded, String> {
        let unknown = unstructured::check(&merged, &self.go_type)?;
        let forgets = forgets_owners(&merged);
        let object = decode::convert(merged, &self.go_type)?;
        Ok(Decoded {
            object: self.typed(object, forgets),
            unknown,
        })
    }

    fn default(&self, object: &mut Value) {
        (self.behaviour.default)(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.has_status && !self.behaviour.keeps_status {
            set(object, &["status"], encode::zero_field(&self.go_type, "status"));
        }
        if !self.behaviour.generation.is_empty() && !self.behaviour.starts_without_generation {
            set(object, &["metadata", "generation"], json!(1));
        }
        (self.behaviour.prepare_create)(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        match part {
            Part::Status => {
                for path in self.behaviour.fixed_by_status {
                    restore(object, old, path);
                }
            }
            Part::Main if self.has_status => restore(object, old, &["status"]),
            Part::Main => {}
        }
        (self.behaviour.prepare_update)(object, old, part);
        if part == Part::Main {
            self.move_generation(object, old);
        }
        (self.behaviour.drop_changed)(object);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        (self.behaviour.validate)(object)
    }

    fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        let mut errors = (self.behaviour.validate_update)(object, old, part);
        if part == Part::Main && self.behaviour.validates_updates {
            errors.extend((self.behaviour.validate)(object));
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        self.behaviour.unconditional
    }

    fn allow_create_on_update(&self) -> bool {
        self.behaviour.create_on_update
    }

    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        (self.entry.kind == "Pod").then(|| super::pods::grace_period(object, requested))
    }

    fn allocate(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        peers: &[Arc<Value>],
        dry_run: bool,
    ) -> Result<(), ApiError> {
        match self.entry.plural.as_str() {
            "services" => services::allocate::service(object, old, peers, dry_run),
            _ => Ok(()),
        }
    }

    fn shows_otherwise(&self) -> bool {
        self.entry.plural == "services"
    }

    fn show(&self, object: &mut Value) {
        if self.shows_otherwise() {
            services::shown(object);
        }
    }

    fn unknown_field_label(&self, field: &str) -> String {
        if !self.selectable_fields(&Value::Null).is_empty() {
            return (self.behaviour.unknown_label)(field);
        }
        let field = go_quote(field);
        format!("{field} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }

    fn bare_list_items(&self) -> bool {
        true
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        (self.behaviour.name)(name, prefix)
    }

    fn openapi(&self) -> &Value {
        self.schema.get_or_init(|| data::resolved(&self.entry.schema))
    }

    fn reset_fields(&self, part: Part) -> Vec<Vec<String>> {
        let paths: &[&[&str]] = match part {
            Part::Main if !self.behaviour.unowned_by_main.is_empty() => self.behaviour.unowned_by_main,
            Part::Main if self.has_status => &[&["status"]],
            Part::Main => &[],
            Part::Status if !self.behaviour.unowned_by_status.is_empty() => self.behaviour.unowned_by_status,
            Part::Status => self.behaviour.fixed_by_status,
        };
        paths
            .iter()
            .map(|path| path.iter().map(|key| (*key).to_owned()).collect())
            .collect()
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(String, String)> {
        (self.behaviour.selectable)(object)
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        (self.behaviour.warnings)(object)
    }

    fn update_warnings(&self, object: &Value, old: &Value) -> Vec<String> {
        (self.behaviour.update_warnings)(object, old)
    }

    fn from_storage(&self, stored: Value) -> Value {
        let mut object = match (self.entry.group.as_str(), self.entry.version.as_str()) {
            ("events.k8s.io", _) => events::from_core(stored),
            ("autoscaling", "v1") => autoscaling::convert::to_v1(stored),
            _ => stored,
        };
        if let Some(fill) = self.behaviour.default_stored {
            fill(&mut object);
        }
        object
    }

    fn serves_stored_form(&self) -> bool {
        let version = (self.entry.group.as_str(), self.entry.version.as_str());
        let converted = matches!(version, ("events.k8s.io", _) | ("autoscaling", "v1"));
        !converted && self.behaviour.default_stored.is_none()
    }

    fn to_storage(&self, mut object: Value) -> Value {
        forget_empty_lists(&mut object);
        match (self.entry.group.as_str(), self.entry.version.as_str()) {
            ("events.k8s.io", _) => events::to_core(object),
            ("autoscaling", "v1") => autoscaling::convert::from_v1(object),
            _ => object,
        }
    }

    fn row_conditions(&self, object: &Value) -> Option<Value> {
        (self.behaviour.row_conditions)(object)
    }

    fn versioned_annotations(&self) -> &'static [&'static str] {
        self.behaviour.versioned_annotations
    }

    fn observed(&self) -> Option<Vec<Value>> {
        self.behaviour.observed.map(|look| look())
    }

    fn columns(&self) -> Vec<Column> {
        let column = |entry: &data::ColumnEntry| Column {
            name: entry.name.clone(),
            kind: entry.kind.clone(),
            format: entry.format.clone(),
            description: entry.description.clone(),
            priority: entry.priority,
        };
        self.entry.columns.iter().map(column).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        (self.behaviour.cells)(object, now)
    }

    fn row_order(&self) -> Option<RowOrder> {
        self.behaviour.row_order
    }
}

/// An empty list of owners asks to forget them all, as one empty entry does; only the latter is kept
/// where empty lists are left out.
fn forgets_owners(body: &Value) -> bool {
    let owners = at(body, &["metadata", "managedFields"]).as_array();
    owners.is_some_and(Vec::is_empty)
}

/// Equal, where an empty list is as good as none.
fn same(new: &Value, old: &Value) -> bool {
    let nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let member = |map: &'_ serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
            let mut keys = new.keys().chain(old.keys());
            keys.all(|key| same(&member(new, key), &member(old, key)))
        }
        (Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| same(new, old))
        }
        (new, old) => new == old || (nothing(new) && nothing(old)),
    }
}

/// The real store (protobuf) does not tell an empty list from none.
fn forget_empty_lists(value: &mut Value) {
    match value {
        Value::Array(items) if items.is_empty() => *value = Value::Null,
        Value::Array(items) => items.iter_mut().for_each(forget_empty_lists),
        Value::Object(members) => members.values_mut().for_each(forget_empty_lists),
        _ => {}
    }
}

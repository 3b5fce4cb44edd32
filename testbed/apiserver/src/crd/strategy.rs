//! How custom resources of one CRD version behave.

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::resource::{Column, Decoded, Part, Strategy};
use aplomb_apimachinery::status::ApiError;
use aplomb_apimachinery::validation;
use aplomb_go_compat as go;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::columns::Columns;
use super::jsonpath::JsonPath;
use super::ratchet::Correlated;
use super::rules::Rules;
use super::scale::Scale;
use super::structural::Structural;
use super::{decode, defaulting, embedded, list_type, openapi, pruning, validate};

const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// One served version of a CustomResourceDefinition.
#[derive(Debug)]
pub struct CrdStrategy {
    group: String,
    version: String,
    kind: String,
    storage_version: String,
    has_status: bool,
    schema: Structural,
    rules: Rules,
    /// What the stored form is pruned and defaulted by, when it is another version's.
    stored: Option<Structural>,
    published: Value,
    columns: Columns,
    selectable: Vec<(String, JsonPath)>,
    scale: Scale,
}

impl CrdStrategy {
    /// The strategy of `version`, an entry of `spec.versions` of a CRD for `group` and `kind` that
    /// stores objects as `storage`, another entry or the same.
    #[must_use]
    pub fn new(group: &str, kind: &str, version: &Value, storage: &Value) -> Self {
        let empty = Value::Object(Map::new());
        let schema_of = |version: &'_ Value| {
            let schema = version.pointer("/schema/openAPIV3Schema");
            schema.unwrap_or(&empty).clone()
        };
        let name_of = |version: &'_ Value| {
            let name = version.get("name").and_then(Value::as_str);
            name.unwrap_or_default().to_owned()
        };
        let (schema, name, storage_version) = (&schema_of(version), &name_of(version), name_of(storage));
        let stored = (*name != storage_version).then(|| Structural::parse(&schema_of(storage)));
        let parsed = Structural::parse(schema);
        Self {
            group: group.to_owned(),
            version: name.to_owned(),
            kind: kind.to_owned(),
            storage_version,
            stored,
            has_status: version.pointer("/subresources/status").is_some(),
            rules: Rules::compile(&parsed, true),
            schema: parsed,
            published: openapi::publish(schema, group, name, kind),
            columns: Columns::parse(version),
            selectable: parse_selectable(version),
            scale: Scale::parse(version),
        }
    }

    fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    fn validate_type_meta(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (key, wanted) in [("kind", self.kind.clone()), ("apiVersion", self.api_version())] {
            let actual = object.get(key).and_then(Value::as_str).unwrap_or_default();
            if actual != wanted {
                errors.push(FieldError::invalid(key, actual, format!("must be {wanted}")));
            }
        }
        errors
    }

    /// Rules are left unchecked, with a note, when an object is wrong in a way they may not expect.
    fn validate_rules(&self, mut errors: Vec<FieldError>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if !self.schema.has_rules() {
            return errors;
        }
        if errors.iter().any(is_blocking) {
            errors.push(FieldError::new(ErrorType::Invalid, "<nil>", Value::Null, NOT_CHECKED));
            return errors;
        }
        let pair = old.map(|old| Correlated::new(object, old, &self.schema));
        errors.extend(self.rules.validate(&self.schema, object, old, pair).errors);
        errors
    }
}

/// Errors after which rules cannot be evaluated.
fn is_blocking(error: &FieldError) -> bool {
    use ErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}

fn parse_selectable(version: &Value) -> Vec<(String, JsonPath)> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let parse = |field: &Value| {
        let path = field.get("jsonPath")?.as_str()?;
        Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()?))
    };
    fields.into_iter().flatten().filter_map(parse).collect()
}

fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("generation".into(), generation.into());
    }
}

fn set_api_version(object: &mut Value, api_version: String) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
    }
}

fn generation(object: &Value) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// Whether anything but metadata differs.
fn content_differs(one: &Value, other: &Value) -> bool {
    let content = |object: &Value| -> Map<String, Value> {
        let members = object.as_object().into_iter().flatten();
        members
            .filter(|(key, _)| *key != "metadata")
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    content(one) != content(other)
}

/// Takes a member from `from`, or removes it when there is none.
fn restore(object: &mut Value, key: &str, from: &Value) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    match from.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

impl Strategy for CrdStrategy {
    fn decode(&self, body: Value) -> Result<Decoded, ApiError> {
        decode::decode(body, &self.group, &self.kind, &self.version, &self.schema)
    }

    fn default(&self, object: &mut Value) {
        defaulting::default(object, &self.schema);
    }

    fn prepare_create(&self, object: &mut Value) {
        if let (true, Some(map)) = (self.has_status, object.as_object_mut()) {
            map.remove("status");
        }
        set_generation(object, 1);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        match part {
            Part::Main => {
                if self.has_status {
                    restore(object, "status", old);
                }
                let step = i64::from(content_differs(object, old));
                set_generation(object, generation(old) + step);
            }
            Part::Status => {
                let mut whole = old.clone();
                restore(&mut whole, "status", object);
                let managed = object.get_mut("metadata").map(Value::take);
                if let (Some(managed), Some(metadata)) = (managed, whole.get_mut("metadata")) {
                    restore(metadata, "managedFields", &managed);
                }
                *object = whole;
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.validate_type_meta(object);
        if errors.is_empty() {
            errors.extend(validate::validate(object, &self.schema, ""));
            errors.extend(self.scale.validate_spec(object));
            errors.extend(self.scale.validate_status(object));
        }
        errors.extend(embedded::validate(object, &self.schema));
        errors.extend(list_type::validate(object, &self.schema));
        self.validate_rules(errors, object, None)
    }

    fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        let mut errors = self.validate_type_meta(object);
        let right_type = errors.is_empty();
        if right_type && part == Part::Main {
            let pair = Correlated::new(object, old, &self.schema);
            errors.extend(validate::validate_update(pair, &self.schema, ""));
            errors.extend(self.scale.validate_spec(object));
        }
        if let (true, Part::Status, Some(status)) = (right_type, part, object.get("status")) {
            let schema = self.schema.properties.get("status");
            let pair = schema.map(|s| Correlated::new(status, old.get("status").unwrap_or(&Value::Null), s));
            errors.extend(
                pair.zip(schema)
                    .map_or_else(Vec::new, |(p, s)| validate::validate_update(p, s, "status")),
            );
        }
        if right_type {
            errors.extend(self.scale.validate_status(object));
        }
        if part == Part::Main {
            errors.extend(embedded::validate(object, &self.schema));
        }
        if list_type::validate(old, &self.schema).is_empty() {
            errors.extend(list_type::validate(object, &self.schema));
        }
        self.validate_rules(errors, object, Some(old))
    }

    fn is_custom(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validation::custom::dns_subdomain(name, prefix)
    }

    fn openapi(&self) -> &Value {
        &self.published
    }

    fn reset_fields(&self, part: Part) -> Vec<Vec<String>> {
        let names: &[&str] = match part {
            Part::Main if self.has_status => &["status"],
            Part::Main => &[],
            Part::Status => &["metadata", "spec"],
        };
        names.iter().map(|name| vec![(*name).to_owned()]).collect()
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(String, String)> {
        let value = |path: &JsonPath| match path.find(object).unwrap_or_default().first() {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(n)) if n.is_f64() => go::float(n.as_f64().unwrap_or_default()),
            Some(other) => go::json(other),
        };
        self.selectable
            .iter()
            .map(|(name, path)| (name.clone(), value(path)))
            .collect()
    }

    fn update_warnings(&self, object: &Value, old: &Value) -> Vec<String> {
        let pair = Correlated::new(object, old, &self.schema);
        let found = self.rules.validate(&self.schema, object, Some(old), Some(pair));
        found.kept.iter().map(FieldError::message).collect()
    }

    /// Objects written under an older schema, as another version or by an apply are read as what
    /// this version makes of them.
    fn from_storage(&self, mut stored: Value) -> Value {
        set_api_version(&mut stored, self.api_version());
        let schema = self.stored.as_ref().unwrap_or(&self.schema);
        decode::settle(&mut stored, schema);
        defaulting::default(&mut stored, schema);
        if self.stored.is_some() {
            pruning::prune_resource(&mut stored, &self.schema);
        }
        stored
    }

    fn to_storage(&self, mut object: Value) -> Value {
        set_api_version(&mut object, format!("{}/{}", self.group, self.storage_version));
        if let Some(schema) = &self.stored {
            decode::settle(&mut object, schema);
        }
        object
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.headers()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.columns.cells(object, now)
    }
}

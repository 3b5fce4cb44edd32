//! Rules for each node of a schema in a definition: what is not supported, list and map types, and
//! the form of `x-kubernetes-validations`.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::{ErrorType, FieldError};
use serde_json::Value;

use super::rule_declarations;
use super::structural_rules::{children, property_of};
use super::{text, texts};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

const LIST_TYPES: [&str; 3] = ["atomic", "set", "map"];

/// Members of JSON Schema that the server refuses wherever they stand.
const UNSUPPORTED: [&str; 6] = [
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// What is known about a node from the nodes above it.
#[derive(Clone, Default)]
pub(super) struct ParentSchema {
    pub(super) is_root: bool,
    inside_metadata: bool,
    no_defaults: Option<String>,
}

impl ParentSchema {
    pub(super) fn root() -> Self {
        Self {
            is_root: true,
            ..Self::default()
        }
    }
}

/// Checks a node and everything below it.
pub(super) fn validate(schema: &Value, path: &str, above: &ParentSchema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    unsupported(schema, path, above, &mut errors);
    if has(schema, "additionalProperties") && has_properties(schema) && schema["additionalProperties"] != true {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    for (step, child) in children(schema) {
        let below = descend(schema, &step, above);
        errors.extend(validate(child, &format!("{path}{step}"), &below));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
    map_type(schema, path, &mut errors);
    list_type(schema, path, &mut errors);
    list_map(schema, path, &mut errors);
    keyed_items(schema, path, &mut errors);
    errors.extend(rule_declarations::validate_form(schema, path));
    errors
}

fn descend(schema: &Value, step: &str, above: &ParentSchema) -> ParentSchema {
    let mut below = ParentSchema {
        is_root: false,
        ..above.clone()
    };
    match property_of(step) {
        Some(name @ ("metadata" | "kind" | "apiVersion"))
            if above.is_root || flag(schema, "x-kubernetes-embedded-resource") =>
        {
            below.inside_metadata = true;
            if above.is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        None if step == ".additionalProperties" && above.inside_metadata => {
            below.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        _ => {}
    }
    below
}

fn unsupported(schema: &Value, path: &str, above: &ParentSchema, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        let at = format!("{path}.type");
        errors.push(FieldError::not_supported(at, kind, &TYPES));
    }
    let mut forbid = |key: &str, detail: &str| {
        errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
    };
    if let (true, Some(reason)) = (has(schema, "default"), &above.no_defaults) {
        forbid("default", &format!("must not be set {reason}"));
    }
    for key in UNSUPPORTED.into_iter().filter(|key| has(schema, key)) {
        forbid(key, &format!("{key} is not supported"));
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        forbid("type", detail);
    }
    if schema.get("items").is_some_and(Value::is_array) {
        forbid("items", "items must be a schema object and not an array");
    }
    let embedded = "x-kubernetes-embedded-resource";
    if above.inside_metadata && flag(schema, embedded) {
        forbid(embedded, "must not be used inside of resource meta");
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid("uniqueItems", detail);
    }
}

fn has(schema: &Value, key: &str) -> bool {
    schema.get(key).is_some_and(|value| !value.is_null())
}

fn has_properties(schema: &Value) -> bool {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|p| !p.is_empty())
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn wrong_type(schema: &Value, path: &str, detail: &str) -> FieldError {
    match text(schema, "type") {
        "" => FieldError::required(format!("{path}.type"), detail),
        kind => FieldError::invalid(format!("{path}.type"), kind, detail),
    }
}

fn map_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map_type) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else {
        return;
    };
    if text(schema, "type") != "object" {
        errors.push(wrong_type(
            schema,
            path,
            "must be object if x-kubernetes-map-type is specified",
        ));
    }
    if !["atomic", "granular"].contains(&map_type) {
        let at = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(at, map_type, &["atomic", "granular"]));
    }
}

fn list_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list_type) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        return;
    };
    if text(schema, "type") != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(wrong_type(schema, path, detail));
    } else if list_type == "set" {
        errors.extend(items_of_set(&schema["items"], &format!("{path}.items")));
    }
    if !LIST_TYPES.contains(&list_type) {
        let at = format!("{path}.x-kubernetes-list-type");
        errors.push(FieldError::not_supported(at, list_type, &LIST_TYPES));
    }
}

/// What a set holds is compared as a whole.
fn items_of_set(items: &Value, path: &str) -> Option<FieldError> {
    let inner = text(items, "x-kubernetes-list-type");
    let broken = match text(items, "type") {
        "array" if !["", "atomic"].contains(&inner) => "x-kubernetes-list-type",
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => "x-kubernetes-map-type",
        _ => return None,
    };
    // The list type is shown for maps too.
    let shown = items.get("x-kubernetes-list-type").cloned();
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    Some(FieldError::invalid(
        format!("{path}.{broken}"),
        shown.unwrap_or_default(),
        detail,
    ))
}

fn list_map(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let keys = texts(schema, "x-kubernetes-list-map-keys");
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let at = format!("{path}.x-kubernetes-list-type");
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        None if !keys.is_empty() => errors.push(FieldError::required(at, detail)),
        Some(other) if other != "map" && !keys.is_empty() => errors.push(FieldError::invalid(at, other, detail)),
        _ => {}
    }
    if list_type != Some("map") {
        return;
    }
    let keys_at = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(
            keys_at,
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    };
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(
            format!("{path}.items.type"),
            text(items, "type"),
            detail,
        ));
        return;
    }
    map_keys(items, &keys, path, errors);
}

/// Keys must be names of scalar properties of the items, each once.
fn map_keys(items: &Value, keys: &[String], path: &str, errors: &mut Vec<FieldError>) {
    let keys_at = format!("{path}.x-kubernetes-list-map-keys");
    let mut seen = BTreeSet::new();
    for key in keys {
        match items.get("properties").and_then(|p| p.get(key)) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(keys_at.clone(), keys.to_vec(), detail));
            }
            Some(property) if ["array", "object"].contains(&text(property, "type")) => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = format!("{path}.items.properties[{key}].type");
                errors.push(FieldError::invalid(at, text(items, "type"), detail));
            }
            Some(_) => {}
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(
                keys_at.clone(),
                keys.to_vec(),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Items of sets and maps must be there to be told apart, and keys of maps always set.
fn keyed_items(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        return;
    };
    if !["set", "map"].contains(&list_type) {
        return;
    }
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::new(
            ErrorType::Forbidden,
            format!("{path}.items.nullable"),
            Value::Null,
            detail,
        ));
    }
    if list_type == "set" {
        return;
    }
    let required = texts(items, "required");
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        let Some(property) = items.get("properties").and_then(|p| p.get(&key)) else {
            continue;
        };
        let at = format!("{path}.items.properties[{key}]");
        let head = "this property is in x-kubernetes-list-map-keys, so it";
        if !required.contains(&key) && !has(property, "default") {
            let detail = format!("{head} must have a default or be a required property");
            errors.push(FieldError::required(format!("{at}.default"), detail));
        }
        if flag(property, "nullable") {
            errors.push(FieldError::forbidden(
                format!("{at}.nullable"),
                format!("{head} cannot be nullable"),
            ));
        }
    }
}

//! What makes a schema structural: every field has a type on the spine, and what stands below
//! `anyOf` and its kin only restricts values.

use aplomb_apimachinery::field::FieldError;
use aplomb_go_compat::regex::{Pattern, complaint};
use serde_json::{Map, Value, json};

use super::text;

/// Where on the spine a schema stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that keeps `schema` from being structural, sorted as the server sorts it.
pub(super) fn validate(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_node(schema, Level::Root, path, &mut errors);
    check_completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_key(FieldError::message);
    errors
}

/// The first member that cannot be in a structural schema at all.
pub(super) fn unsupported(schema: &Value) -> Option<&'static str> {
    const NAMES: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    let here = NAMES
        .iter()
        .find(|(key, _)| schema.get(*key).is_some())
        .map(|(_, name)| *name);
    here.or_else(|| children(schema).into_iter().find_map(|(_, child)| unsupported(child)))
}

/// Every schema directly below, with the rest of its path.
pub(super) fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for key in ["items", "additionalProperties", "not"] {
        found.extend(
            schema
                .get(key)
                .filter(|v| v.is_object())
                .map(|child| (format!(".{key}"), child)),
        );
    }
    for (name, child) in properties(schema) {
        found.push((format!(".properties[{name}]"), child));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let list = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        found.extend(
            list.enumerate()
                .map(|(index, child)| (format!(".{key}[{index}]"), child)),
        );
    }
    found
}

/// The name of the property that a step to a child leads to.
pub(super) fn property_of(step: &str) -> Option<&str> {
    step.strip_prefix(".properties[")?.strip_suffix(']')
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn check_node(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    match schema.get("items").filter(|items| items.is_object()) {
        Some(items) => check_node(items, Level::Item, &format!("{path}.items"), errors),
        None if kind == "array" => {
            errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
        }
        None => {}
    }
    for (name, property) in properties(schema) {
        check_node(property, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    check_additional(schema, level, path, errors);
    check_extensions(schema, path, errors);
    check_values(schema, level, path, errors);
    check_type(schema, level, path, errors);
    check_meta(schema, level, path, errors);
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if flag(schema, "x-kubernetes-embedded-resource") && !preserves && properties(schema).next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

fn check_additional(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let Some(additional) = schema.get("additionalProperties") else {
        return;
    };
    let at = format!("{path}.additionalProperties");
    if level == Level::Root {
        errors.push(FieldError::forbidden(at.clone(), "must not be used at the root"));
    }
    if additional.is_object() {
        check_node(additional, Level::Field, &at, errors);
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(at, detail));
    }
}

fn check_extensions(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, key) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{key}"), true, detail));
        }
    }
}

fn check_type(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let at = format!("{path}.type");
    let open = flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(at.clone(), detail)
        } else {
            FieldError::invalid(at.clone(), kind, detail)
        });
    } else if kind.is_empty() && !open {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at.clone(), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(at, kind, "must be object at the root"));
    }
}

fn check_meta(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(member) = schema.get("properties").and_then(|p| p.get(name)) else {
            continue;
        };
        if is_resource && text(member, "type") != wanted {
            let at = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(
                at,
                text(member, "type"),
                format!("must be {wanted}"),
            ));
        }
        if let ("metadata", Level::Root, Value::Object(member)) = (name, level, member)
            && !is_plain_metadata(member)
        {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
        }
    }
}

fn is_plain_metadata(schema: &Map<String, Value>) -> bool {
    schema.iter().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => value
            .as_object()
            .is_none_or(|p| p.keys().all(|k| matches!(k.as_str(), "name" | "generateName"))),
        _ => false,
    })
}

/// The value validations of a node: what stands below junctors, and the pattern.
fn check_values(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let alternatives = json!([{ "type": "integer" }, { "type": "string" }]);
    let is_either = |list: Option<&Value>| list == Some(&alternatives);
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && is_either(schema.get("anyOf")) {
            continue;
        }
        let list = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        for (index, nested) in list.enumerate() {
            let skip = key == "allOf" && index == 0 && is_either(nested.get("anyOf"));
            check_nested(nested, skip, level, &format!("{path}.{key}[{index}]"), errors);
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        check_nested(not, false, level, &format!("{path}.not"), errors);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty() && !Pattern::new(pattern).is_valid() {
        let why = complaint(pattern);
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), pattern, detail));
    }
}

/// What may not stand below a junctor, with the server's word for its absence.
const FORBIDDEN: [(&str, &str); 12] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
];

fn check_nested(schema: &Value, skip_any_of: bool, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let mut own = schema.clone();
    if let (true, Value::Object(map)) = (skip_any_of, &mut own) {
        map.remove("anyOf");
    }
    check_values(&own, level, path, errors);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        check_nested(items, false, level, &format!("{path}.items"), errors);
    }
    for (name, property) in properties(schema) {
        let at = format!("{path}.properties[{name}]");
        check_nested(property, false, Level::Field, &at, errors);
        if name == "metadata" {
            let detail = "must not be specified in a nested context";
            errors.push(FieldError::forbidden(at, detail));
        }
    }
    let set = |value: &Value| !(value == "" || *value == Value::Bool(false) || *value == json!([]));
    for (key, absence) in FORBIDDEN.iter().chain(&[("x-kubernetes-validations", "empty")]) {
        if schema.get(*key).is_some_and(set) {
            let detail = format!("must be {absence} to be structural");
            errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
        }
    }
}

/// What a junctor mentions must be on the spine too.
fn check_completeness(values: &Value, spine: Option<&Value>, at: &str, path: &str, errors: &mut Vec<FieldError>) {
    let Some(spine) = spine else {
        let detail = format!("because it is defined in {path}");
        errors.push(FieldError::required(at, detail));
        return;
    };
    let junctors = children(values).into_iter().filter(|(step, _)| {
        [".not", ".allOf", ".anyOf", ".oneOf"]
            .iter()
            .any(|junctor| step.starts_with(junctor))
    });
    for (step, nested) in junctors {
        let path = format!("{path}{step}");
        check_completeness(nested, Some(spine), at, &path, errors);
        for (step, member) in children(nested) {
            let counterpart = match property_of(&step) {
                Some(name) => spine.get("properties").and_then(|p| p.get(name)),
                None if step == ".items" => spine.get("items"),
                None => continue,
            };
            let (at, path) = (format!("{at}{step}"), format!("{path}{step}"));
            check_member_completeness(member, counterpart, &at, &path, errors);
        }
    }
}

fn check_member_completeness(
    member: &Value,
    counterpart: Option<&Value>,
    at: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    // The member may have members of its own, as if it stood below a junctor of its counterpart.
    let wrapped = json!({ "not": member });
    let mut inner = Vec::new();
    check_completeness(&wrapped, counterpart, at, path, &mut inner);
    let shown = |mut error: FieldError| {
        error.detail = error.detail.replace(&format!("{path}.not"), path);
        error
    };
    errors.extend(inner.into_iter().map(shown));
}

//! A CRD version's `openAPIV3Schema`, read once into the form all the algorithms walk.
//!
//! Reading never fails: what is not where it belongs is left out. Whether a schema is acceptable is
//! decided when the CustomResourceDefinition is written, not here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use aplomb_go_compat::regex::Pattern;

/// One node of a schema. Nodes below `all_of` and its kin have the same shape.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    /// `type`; empty when not given.
    pub type_name: String,
    /// `format` as written.
    pub format: String,
    /// `nullable`.
    pub nullable: bool,
    /// `default`.
    pub default: Option<Value>,
    /// `properties`.
    pub properties: BTreeMap<String, Structural>,
    /// `additionalProperties`.
    pub additional: Option<Additional>,
    /// `items`.
    pub items: Option<Box<Structural>>,
    /// Constraints on the value.
    pub limits: Limits,
    /// `allOf`.
    pub all_of: Vec<Structural>,
    /// `anyOf`.
    pub any_of: Vec<Structural>,
    /// `oneOf`.
    pub one_of: Vec<Structural>,
    /// `not`.
    pub not: Option<Box<Structural>>,
    /// The `x-kubernetes-*` members.
    pub extensions: Extensions,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
}

/// `additionalProperties`: a schema, or just a yes or no.
#[derive(Clone, Debug)]
pub enum Additional {
    /// `true` or `false`.
    Allowed(bool),
    /// The schema of every value.
    Schema(Box<Structural>),
}

/// Constraints that need no other schema.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Limits {
    pub required: Vec<String>,
    pub enumeration: Vec<Value>,
    pub pattern: Option<Pattern>,
    pub min_length: Option<i64>,
    pub max_length: Option<i64>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_items: Option<i64>,
    pub max_items: Option<i64>,
    pub unique_items: bool,
    pub min_properties: Option<i64>,
    pub max_properties: Option<i64>,
}

/// What Kubernetes adds to OpenAPI.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Extensions {
    pub int_or_string: bool,
    pub preserve_unknown_fields: bool,
    pub embedded_resource: bool,
    pub list_type: Option<String>,
    pub list_map_keys: Vec<String>,
    pub map_type: Option<String>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: bool,
}

impl Structural {
    /// Reads a schema.
    #[must_use]
    pub fn parse(schema: &Value) -> Self {
        let Some(map) = schema.as_object() else {
            return Self::default();
        };
        Self {
            type_name: text(map, "type"),
            format: text(map, "format"),
            nullable: flag(map, "nullable"),
            default: map.get("default").filter(|v| !v.is_null()).cloned(),
            properties: parse_properties(map),
            additional: map.get("additionalProperties").and_then(Additional::parse),
            items: parse_box(map, "items"),
            limits: Limits::parse(map),
            all_of: parse_list(map, "allOf"),
            any_of: parse_list(map, "anyOf"),
            one_of: parse_list(map, "oneOf"),
            not: parse_box(map, "not"),
            extensions: Extensions::parse(map),
            rules: parse_rules(map),
        }
    }

    /// The schema of a map's values, when `additionalProperties` is one.
    #[must_use]
    pub fn additional_schema(&self) -> Option<&Structural> {
        match &self.additional {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schema of member `key`: its property, or the schema of any other.
    #[must_use]
    pub fn child(&self, key: &str) -> Option<&Structural> {
        self.properties.get(key).or_else(|| self.additional_schema())
    }

    /// Whether this node or one below it on the structural spine has rules.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.items.as_ref().is_some_and(|s| s.has_rules())
            || self.additional_schema().is_some_and(Self::has_rules)
            || self.properties.values().any(Self::has_rules)
    }
}

impl Additional {
    fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(allowed) => Some(Self::Allowed(*allowed)),
            Value::Object(_) => Some(Self::Schema(Box::new(Structural::parse(value)))),
            _ => None,
        }
    }
}

impl Limits {
    fn parse(map: &Map<String, Value>) -> Self {
        Self {
            required: texts(map, "required"),
            enumeration: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: map
                .get("pattern")
                .and_then(Value::as_str)
                .filter(|p| !p.is_empty())
                .map(Pattern::new),
            min_length: integer(map, "minLength"),
            max_length: integer(map, "maxLength"),
            minimum: number(map, "minimum"),
            maximum: number(map, "maximum"),
            exclusive_minimum: flag(map, "exclusiveMinimum"),
            exclusive_maximum: flag(map, "exclusiveMaximum"),
            multiple_of: number(map, "multipleOf"),
            min_items: integer(map, "minItems"),
            max_items: integer(map, "maxItems"),
            unique_items: flag(map, "uniqueItems"),
            min_properties: integer(map, "minProperties"),
            max_properties: integer(map, "maxProperties"),
        }
    }
}

impl Extensions {
    fn parse(map: &Map<String, Value>) -> Self {
        Self {
            int_or_string: flag(map, "x-kubernetes-int-or-string"),
            preserve_unknown_fields: flag(map, "x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag(map, "x-kubernetes-embedded-resource"),
            list_type: map
                .get("x-kubernetes-list-type")
                .and_then(Value::as_str)
                .map(str::to_owned),
            list_map_keys: texts(map, "x-kubernetes-list-map-keys"),
            map_type: map
                .get("x-kubernetes-map-type")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }
}

fn parse_properties(map: &Map<String, Value>) -> BTreeMap<String, Structural> {
    let members = map.get("properties").and_then(Value::as_object);
    members
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name.clone(), Structural::parse(schema)))
        .collect()
}

fn parse_box(map: &Map<String, Value>, key: &str) -> Option<Box<Structural>> {
    map.get(key)
        .filter(|v| v.is_object())
        .map(|v| Box::new(Structural::parse(v)))
}

fn parse_list(map: &Map<String, Value>, key: &str) -> Vec<Structural> {
    map.get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(Structural::parse)
        .collect()
}

fn parse_rules(map: &Map<String, Value>) -> Vec<Rule> {
    let rules = map.get("x-kubernetes-validations").and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .map(parse_rule)
        .collect()
}

fn parse_rule(rule: &Map<String, Value>) -> Rule {
    Rule {
        rule: text(rule, "rule"),
        message: text(rule, "message"),
        message_expression: text(rule, "messageExpression"),
        reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
        field_path: text(rule, "fieldPath"),
        optional_old_self: flag(rule, "optionalOldSelf"),
    }
}

fn text(map: &Map<String, Value>, key: &str) -> String {
    map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn texts(map: &Map<String, Value>, key: &str) -> Vec<String> {
    let items = map.get(key).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn integer(map: &Map<String, Value>, key: &str) -> Option<i64> {
    map.get(key).and_then(Value::as_i64)
}

fn number(map: &Map<String, Value>, key: &str) -> Option<f64> {
    map.get(key).and_then(Value::as_f64)
}

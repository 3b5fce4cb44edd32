//! Parts of a definition printed as the server prints its internal types in messages: every Go
//! field, in Go's order.

use serde_json::Value;

use aplomb_go_compat as go;

/// The members of a schema: Go's name, the JSON name and what stands for nothing.
const SCHEMA: &[(&str, &str, &str)] = &[
    ("ID", "id", "\"\""),
    ("Schema", "$schema", "\"\""),
    ("Ref", "$ref", "null"),
    ("Description", "description", "\"\""),
    ("Type", "type", "\"\""),
    ("Nullable", "nullable", "false"),
    ("Format", "format", "\"\""),
    ("Title", "title", "\"\""),
    ("Default", "default", "null"),
    ("Maximum", "maximum", "null"),
    ("ExclusiveMaximum", "exclusiveMaximum", "false"),
    ("Minimum", "minimum", "null"),
    ("ExclusiveMinimum", "exclusiveMinimum", "false"),
    ("MaxLength", "maxLength", "null"),
    ("MinLength", "minLength", "null"),
    ("Pattern", "pattern", "\"\""),
    ("MaxItems", "maxItems", "null"),
    ("MinItems", "minItems", "null"),
    ("UniqueItems", "uniqueItems", "false"),
    ("MultipleOf", "multipleOf", "null"),
    ("Enum", "enum", "null"),
    ("MaxProperties", "maxProperties", "null"),
    ("MinProperties", "minProperties", "null"),
    ("Required", "required", "null"),
    ("Items", "items", "null"),
    ("AllOf", "allOf", "null"),
    ("OneOf", "oneOf", "null"),
    ("AnyOf", "anyOf", "null"),
    ("Not", "not", "null"),
    ("Properties", "properties", "null"),
    ("AdditionalProperties", "additionalProperties", "null"),
    ("PatternProperties", "patternProperties", "null"),
    ("Dependencies", "dependencies", "null"),
    ("AdditionalItems", "additionalItems", "null"),
    ("Definitions", "definitions", "null"),
    ("ExternalDocs", "externalDocs", "null"),
    ("Example", "example", "null"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", "null"),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", "false"),
    ("XIntOrString", "x-kubernetes-int-or-string", "false"),
    ("XListMapKeys", "x-kubernetes-list-map-keys", "null"),
    ("XListType", "x-kubernetes-list-type", "null"),
    ("XMapType", "x-kubernetes-map-type", "null"),
    ("XValidations", "x-kubernetes-validations", "null"),
];

const RULE: &[(&str, &str, &str)] = &[
    ("Rule", "rule", "\"\""),
    ("Message", "message", "\"\""),
    ("MessageExpression", "messageExpression", "\"\""),
    ("Reason", "reason", "null"),
    ("FieldPath", "fieldPath", "\"\""),
    ("OptionalOldSelf", "optionalOldSelf", "null"),
];

const VERSION: &[(&str, &str, &str)] = &[
    ("Name", "name", "\"\""),
    ("Served", "served", "false"),
    ("Storage", "storage", "false"),
    ("Deprecated", "deprecated", "false"),
    ("DeprecationWarning", "deprecationWarning", "null"),
    ("Schema", "schema", "null"),
    ("Subresources", "subresources", "null"),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", "null"),
    ("SelectableFields", "selectableFields", "null"),
];

const SUBRESOURCES: &[(&str, &str, &str)] = &[("Status", "status", "null"), ("Scale", "scale", "null")];

const SCALE: &[(&str, &str, &str)] = &[
    ("SpecReplicasPath", "specReplicasPath", "\"\""),
    ("StatusReplicasPath", "statusReplicasPath", "\"\""),
    ("LabelSelectorPath", "labelSelectorPath", "null"),
];

const COLUMN: &[(&str, &str, &str)] = &[
    ("Name", "name", "\"\""),
    ("Type", "type", "\"\""),
    ("Format", "format", "\"\""),
    ("Description", "description", "\"\""),
    ("Priority", "priority", "0"),
    ("JSONPath", "jsonPath", "\"\""),
];

const SELECTABLE: &[(&str, &str, &str)] = &[("JSONPath", "jsonPath", "\"\"")];

/// One `x-kubernetes-validations` entry.
pub(super) fn rule(value: &Value) -> String {
    members(value, RULE)
}

/// A schema.
pub(super) fn schema(value: &Value) -> String {
    members(value, SCHEMA)
}

/// `spec.versions`, without what all versions share: that is printed elsewhere.
pub(super) fn versions(values: &[Value]) -> String {
    let each: Vec<String> = values.iter().map(|value| members(value, VERSION)).collect();
    format!("[{}]", each.join(","))
}

fn members(value: &Value, table: &[(&str, &str, &str)]) -> String {
    let member = |(go_name, name, nothing): &(&str, &str, &str)| {
        let printed = value
            .get(*name)
            .map_or_else(|| (*nothing).to_owned(), |value| member(go_name, value));
        format!("\"{go_name}\":{printed}")
    };
    let all: Vec<String> = table.iter().map(member).collect();
    format!("{{{}}}", all.join(","))
}

fn member(go_name: &str, value: &Value) -> String {
    match (go_name, value) {
        ("Properties" | "PatternProperties" | "Definitions", Value::Object(map)) => {
            let each = map
                .iter()
                .map(|(key, value)| format!("{}:{}", go::json(&Value::from(key.as_str())), schema(value)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(","))
        }
        ("AllOf" | "OneOf" | "AnyOf", Value::Array(items)) => list(items, schema),
        ("XValidations", Value::Array(items)) => list(items, rule),
        ("AdditionalPrinterColumns", Value::Array(items)) => list(items, |column| members(column, COLUMN)),
        ("SelectableFields", Value::Array(items)) => list(items, |field| members(field, SELECTABLE)),
        ("Subresources", some) => members(some, SUBRESOURCES),
        ("Scale", some) => members(some, SCALE),
        ("Not", schema_value) => schema(schema_value),
        ("Items", schema_value) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(schema_value)),
        ("AdditionalProperties", Value::Bool(allowed)) => {
            format!("{{\"Allows\":{allowed},\"Schema\":null}}")
        }
        ("AdditionalProperties", other) => {
            format!("{{\"Allows\":true,\"Schema\":{}}}", schema(other))
        }
        ("Schema", Value::Object(validation)) => {
            let inner = validation
                .get("openAPIV3Schema")
                .map_or_else(|| "null".to_owned(), schema);
            format!("{{\"OpenAPIV3Schema\":{inner}}}")
        }
        (_, other) => go::json(other),
    }
}

fn list(items: &[Value], print: fn(&Value) -> String) -> String {
    format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(","))
}

//! Hand-written schemas: selectors and labels with their limits. Every string, list and map is bounded,
//! because an API server rejects rules whose cost has no bound.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A label key: an optional DNS prefix, a slash, and a name.
const LABEL_KEY_RULE: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// A label value.
const LABEL_VALUE_RULE: &str = r"self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')";
/// The longest key: a DNS name of 253, a slash, a name of 63.
const MAX_LABEL_KEY_LENGTH: u32 = 317;

/// A label selector that must not be empty: an empty selector would match every node or pod.
pub(super) fn selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "description": "Labels that must be present with these values.",
                "type": "object",
                "maxProperties": 16,
                "additionalProperties": label_value_schema(),
            },
            "matchExpressions": {
                "description": "Requirements that must all hold.",
                "type": "array",
                "maxItems": 16,
                "items": requirement_schema(),
                "x-kubernetes-list-type": "atomic",
            },
        },
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [{
            "rule": "(has(self.matchLabels) && self.matchLabels.size() > 0) || \
                     (has(self.matchExpressions) && self.matchExpressions.size() > 0)",
            "message": "an empty selector would match everything: give matchLabels or matchExpressions",
        }],
    })
}

fn requirement_schema() -> Value {
    json!({
        "description": "One requirement.",
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": {
                "description": "The label key.",
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_LABEL_KEY_LENGTH,
                "pattern": LABEL_KEY_RULE,
            },
            "operator": {
                "description": "How the value is compared.",
                "type": "string",
                "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
            },
            "values": {
                "description": "The values, for In and NotIn.",
                "type": "array",
                "maxItems": 32,
                "items": label_value_schema(),
                "x-kubernetes-list-type": "atomic",
            },
        },
        "x-kubernetes-validations": [{
            "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "message": "In and NotIn need at least one of values, Exists and DoesNotExist none",
        }],
    })
}

fn label_value_schema() -> Value {
    json!({
        "description": "A label value: at most 63 letters, digits, '-', '_' and '.'.",
        "type": "string",
        "maxLength": 63,
        "x-kubernetes-validations": [{
            "rule": LABEL_VALUE_RULE,
            "message": "a label value must be letters, digits, '-', '_' and '.', and begin and \
                        end with a letter or digit",
        }],
    })
}

pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 8,
        "additionalProperties": label_value_schema(),
        "x-kubernetes-validations": [
            {
                "rule": "self.all(key, key.size() > 0 && key.size() <= 317)",
                "message": "a label key must be 1 to 317 characters",
            },
            {
                "rule": "self.all(key, key.matches('^([a-z0-9.-]+/)?[A-Za-z0-9_.-]+$'))",
                "message": "a label key must be like example.com/name or name: letters, digits, '-', '_' and '.'",
            },
        ],
    })
}

pub(super) fn networks(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": {
            "description": "A network, like 192.0.2.0/24 or 2001:db8::/64.",
            "type": "string",
            "maxLength": 43,
            "x-kubernetes-validations": [{
                "rule": "isCIDR(self)",
                "message": "not a network: write it like 192.0.2.0/24, or 192.0.2.7/32 for one address",
            }],
        },
    })
}

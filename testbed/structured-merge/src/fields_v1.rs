//! `fieldsV1`: a set of fields as `metadata.managedFields` holds it.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::{Set, Subtree};

/// Marks a node that is a member itself beside having children.
const SELF: &str = ".";

/// The wire form of a set.
#[must_use]
pub fn encode(set: &Set) -> Value {
    let mut out = Map::new();
    for node in set.nodes() {
        out.insert(node.element.serialize(), encode_subtree(&node.subtree));
    }
    Value::Object(out)
}

fn encode_subtree(subtree: &Subtree) -> Value {
    let mut value = encode(&subtree.children);
    if let (true, false, Value::Object(map)) = (subtree.member, subtree.children.is_empty(), &mut value) {
        map.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    value
}

/// Reads the wire form; elements of unknown kinds are left out.
///
/// # Errors
/// What is wrong with it.
pub fn decode(value: &Value) -> Result<Set, String> {
    Ok(decode_subtree(value)?.children)
}

fn decode_subtree(value: &Value) -> Result<Subtree, String> {
    let empty = Map::new();
    let map = match value {
        Value::Object(map) => map,
        Value::Null => &empty,
        other => return Err(format!("expected a map of fields, got {other}")),
    };
    let mut children = Set::default();
    for (key, below) in map {
        if key == SELF {
            continue;
        }
        if let Some(element) = PathElement::parse(key)? {
            children.put(element, decode_subtree(below)?);
        }
    }
    let member = children.is_empty() || map.contains_key(SELF);
    Ok(Subtree { member, children })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_wire_form_survives_a_round_trip() {
        let wire = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"example.com/x\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}
        });
        assert_eq!(decode(&wire).map(|set| encode(&set)), Ok(wire));
    }

    #[test]
    fn unknown_elements_and_null_are_tolerated() {
        let set = decode(&json!({"f:a": null, "x:later": {"f:b": {}}, "f:c": {".": {}}}));
        assert_eq!(set.map(|set| encode(&set)), Ok(json!({"f:a": {}, "f:c": {}})));
        assert_eq!(decode(&json!({})), Ok(Set::default()));
    }

    #[test]
    fn what_is_not_a_map_of_fields_is_refused() {
        for bad in [
            json!([]),
            json!("x"),
            json!({"f:a": 1}),
            json!({"a": {}}),
            json!({"v:{": {}}),
        ] {
            assert!(decode(&bad).is_err(), "{bad}");
        }
    }
}

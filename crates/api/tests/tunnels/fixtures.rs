//! Tunnels that are fine, to be spoilt.

use serde_json::{Value, json};

/// A valid spec, with one rule that has these members in addition to its backend.
pub(crate) fn with_rule(members: Value) -> Value {
    let mut rule = json!({ "backends": [backend()] });
    for (name, value) in members.as_object().expect("members") {
        rule[name] = value.clone();
    }
    json!({ "rules": [rule] })
}

pub(crate) fn backend() -> Value {
    json!({ "endpoint": "http://localhost:3000", "connector": { "name": "laptop" } })
}

/// A tunnel that is fine.
pub(crate) fn tunnel() -> Value {
    with_rule(json!({}))
}

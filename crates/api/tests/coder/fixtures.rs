//! Valid specs, for tests to change.

use serde_json::{Value, json};

pub(crate) const PROVISIONER: &str = "CoderProvisioner";
pub(crate) const PROXY: &str = "CoderWorkspaceProxy";

pub(crate) fn server() -> Value {
    json!({ "url": "https://coder.example.com", "tokenSecretRef": { "name": "coder-token" } })
}

pub(crate) fn provisioner() -> Value {
    json!({ "server": server() })
}

pub(crate) fn proxy() -> Value {
    json!({ "bootstrap": { "server": server() } })
}

/// A change of the whole bootstrap: these members in addition to its server.
pub(crate) fn bootstrap(members: Value) -> Value {
    let mut bootstrap = json!({ "server": server() });
    for (name, value) in members.as_object().expect("members") {
        bootstrap[name] = value.clone();
    }
    json!({ "bootstrap": bootstrap })
}

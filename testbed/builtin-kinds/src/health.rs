//! Component statuses: what the server finds when it looks at its own parts. Its store is well; a
//! scheduler and a controller manager do not listen where it would look for them.

use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::print::name;
use super::value::{list, text};

/// How component statuses behave.
pub(super) const COMPONENT_STATUS: KindBehavior = KindBehavior {
    observed: Some(|| {
        vec![
            absent("controller-manager", 10257),
            absent("scheduler", 10259),
            component("etcd-0", "True", "ok"),
        ]
    }),
    cells: |status, _| {
        let healthy = list(status, &["conditions"])
            .iter()
            .find(|condition| text(condition, &["type"]) == "Healthy");
        let [word, message, error] = match healthy {
            None => ["Unknown", "", ""],
            Some(condition) => {
                let word = match text(condition, &["status"]) {
                    "True" => "Healthy",
                    _ => "Unhealthy",
                };
                [word, text(condition, &["message"]), text(condition, &["error"])]
            }
        };
        vec![name(status), word.into(), message.into(), error.into()]
    },
    ..KindBehavior::PLAIN
};

fn absent(name: &str, port: u16) -> Value {
    let message =
        format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused");
    component(name, "False", &message)
}

fn component(name: &str, healthy: &str, message: &str) -> Value {
    json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": { "name": name },
        "conditions": [{ "type": "Healthy", "status": healthy, "message": message }],
    })
}

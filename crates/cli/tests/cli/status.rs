//! The exit code of `aplomb status`, the real binary, on `aplomb box`.

use serde_json::{Value, json};

use crate::boxed::{Boxed, err, has_kubectl, out};

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": "so",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1 })
}

/// Sets the conditions of an object, as its operator would.
fn set_conditions(server: &Boxed, object: &str, conditions: &[Value]) {
    let status = json!({ "observedGeneration": 1, "conditions": conditions });
    let patch = json!({ "status": status }).to_string();
    let words = ["--subresource=status", "--type=merge", "-p", &patch];
    server.kubectl(&[&["patch", object], &words[..]].concat(), "");
}

fn status(server: &Boxed) -> (Option<i32>, String) {
    let output = server.aplomb(&["status"]);
    (output.status.code(), out(&output) + &err(&output))
}

#[test]
fn the_exit_code_is_1_for_faults_and_not_for_requested_states() {
    if !has_kubectl() {
        return;
    }
    let server = Boxed::with_kinds(&[]);
    let kind = "aplomb.dev/v1alpha1";
    let objects = [
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "aplomb-tunnel" }, "spec": { "holderIdentity": "pod-1" } }),
        json!({ "apiVersion": kind, "kind": "StableEgress", "metadata": { "name": "web" },
            "spec": { "floatingIP": { "name": "web" } } }),
        json!({ "apiVersion": kind, "kind": "Connector", "metadata": { "name": "laptop" },
            "spec": {} }),
    ];
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    server.kubectl(&["create", "-f", "-"], &list.to_string());
    let serving = condition("Ready", "True", "Serving");
    let standby = condition("Redundant", "True", "StandbyReady");
    set_conditions(&server, "stableegress/web", &[serving.clone(), standby.clone()]);
    set_conditions(
        &server,
        "connector/laptop",
        &[condition("Online", "True", "LeaseRenewed")],
    );
    let (code, text) = status(&server);
    assert_eq!(code, Some(0), "{text}");
    // Ctrl-C in `aplomb connect`.
    set_conditions(&server, "connector/laptop", &[condition("Online", "False", "Released")]);
    let (code, text) = status(&server);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("notice") && text.contains("Released"), "{text}");
    let waited = server.aplomb(&["status", "--wait", "--timeout", "1s"]);
    assert_eq!(waited.status.code(), Some(0), "it does not wait");
    let alone = condition("Redundant", "False", "NoStandby");
    set_conditions(&server, "stableegress/web", &[serving, alone]);
    let (code, text) = status(&server);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("warning") && text.contains("NoStandby"), "{text}");
}

//! Manifests that are rejected, each with the field and the message.

use serde_json::{Value, json};

use super::{create, with_server};

/// `(change of a valid spec, rejected field, part of the message)`.
type Refusal = (Value, &'static str, &'static str);

fn floating_ip_refusals() -> Vec<Refusal> {
    let both = "exactly one of name and id";
    vec![
        (json!({ "floatingIP": null }), "spec.floatingIP", "Required"),
        (json!({ "floatingIP": {} }), "spec.floatingIP", both),
        (
            json!({ "floatingIP": { "name": "web", "id": 7 } }),
            "spec.floatingIP",
            both,
        ),
        (
            json!({ "floatingIP": { "name": "" } }),
            "spec.floatingIP.name",
            "at least 1 char",
        ),
        (
            json!({ "floatingIP": { "id": 0 } }),
            "spec.floatingIP.id",
            "greater than or equal to 1",
        ),
        (json!({ "floatingIP": { "id": "7" } }), "spec.floatingIP.id", "integer"),
        (json!({ "tokenSecretRef": {} }), "spec.tokenSecretRef.name", "Required"),
        (
            json!({ "tokenSecretRef": { "name": "A B" } }),
            "spec.tokenSecretRef.name",
            "should match",
        ),
        (
            json!({ "tokenSecretRef": { "name": "a", "key": "" } }),
            "spec.tokenSecretRef.key",
            "at least 1",
        ),
    ]
}

fn selector_refusals() -> Vec<Refusal> {
    let empty = "give matchLabels or matchExpressions";
    let operator = "In and NotIn need at least one of values";
    let expression = |value: Value| json!({ "candidates": { "matchExpressions": [value] } });
    let at = "spec.candidates.matchExpressions[0]";
    vec![
        (json!({ "candidates": {} }), "spec.candidates", empty),
        (json!({ "candidates": { "matchLabels": {} } }), "spec.candidates", empty),
        (
            json!({ "candidates": { "matchLabels": { "a": "-" } } }),
            "spec.candidates.matchLabels[a]",
            "begin and end",
        ),
        (expression(json!({ "key": "a", "operator": "In" })), at, operator),
        (
            expression(json!({ "key": "a", "operator": "Exists", "values": ["b"] })),
            at,
            operator,
        ),
        (
            expression(json!({ "key": "a", "operator": "Near" })),
            "spec.candidates.matchExpressions[0].operator",
            "In",
        ),
        (
            expression(json!({ "key": "a b", "operator": "Exists" })),
            "spec.candidates.matchExpressions[0].key",
            "should match",
        ),
        (
            json!({ "prepared": { "selector": {} } }),
            "spec.prepared.selector",
            empty,
        ),
        (
            json!({ "prepared": { "namespace": "kube-system" } }),
            "spec.prepared.selector",
            "Required",
        ),
    ]
}

fn label_refusals() -> Vec<Refusal> {
    let nine: serde_json::Map<String, Value> = (0..9).map(|n| (format!("key-{n}"), json!(""))).collect();
    vec![
        (json!({ "gatewayLabels": nine }), "spec.gatewayLabels", "at most 8"),
        (
            json!({ "gatewayLabels": { "a b": "" } }),
            "spec.gatewayLabels",
            "like example.com/name",
        ),
        (
            json!({ "gatewayLabels": { "a/b/c": "" } }),
            "spec.gatewayLabels",
            "like example.com/name",
        ),
        (
            json!({ "gatewayLabels": { "a": "x y" } }),
            "spec.gatewayLabels[a]",
            "letters, digits",
        ),
        (
            json!({ "gatewayLabels": { "a": "x".repeat(64) } }),
            "spec.gatewayLabels.a",
            "63",
        ),
        (
            json!({ "candidates": { "matchLabels": { "a": "1" } }, "gatewayLabels": { "a": "2" } }),
            "spec",
            "use another key",
        ),
    ]
}

fn duration_refusals() -> Vec<Refusal> {
    let duration = "write it like 30s, 5m or 1h30m";
    vec![
        (json!({ "resync": "1s" }), "spec.resync", "write 5s or more"),
        (json!({ "resync": "soon" }), "spec.resync", duration),
        (json!({ "dwell": "-1m" }), "spec.dwell", duration),
        (json!({ "dwell": "60" }), "spec.dwell", duration),
        (
            json!({ "graces": { "unhealthy": "1d" } }),
            "spec.graces.unhealthy",
            duration,
        ),
        (
            json!({ "graces": { "unprepared": "" } }),
            "spec.graces.unprepared",
            duration,
        ),
        (
            json!({ "respectForeignMoves": "5 m" }),
            "spec.respectForeignMoves",
            duration,
        ),
        (json!({ "moveDeadline": "0s" }), "spec.moveDeadline", "write 1s or more"),
    ]
}

fn probe_refusals() -> Vec<Refusal> {
    let probe = |value: Value| json!({ "health": { "probe": value } });
    vec![
        (
            probe(json!({ "timeout": "10s" })),
            "spec.health.probe",
            "timeout must be shorter",
        ),
        (
            probe(json!({ "interval": "1s", "timeout": "2s" })),
            "spec.health.probe",
            "raise interval",
        ),
        (
            probe(json!({ "interval": "100ms", "timeout": "50ms" })),
            "spec.health.probe.interval",
            "write 1s or more",
        ),
        (
            probe(json!({ "timeout": "0s" })),
            "spec.health.probe.timeout",
            "at least 50ms",
        ),
        (
            probe(json!({ "failures": 0 })),
            "spec.health.probe.failures",
            "greater than or equal to 1",
        ),
        (
            probe(json!({ "port": 0 })),
            "spec.health.probe.port",
            "greater than or equal to 1",
        ),
        (probe(json!({ "port": 70_000 })), "spec.health.probe.port", "65535"),
        (json!({ "health": { "signal": "ping" } }), "spec.health.signal", "probe"),
    ]
}

fn other_refusals() -> Vec<Refusal> {
    let network = "write it like 192.0.2.0/24";
    vec![
        (json!({ "allowlist": ["192.0.2.1"] }), "spec.allowlist[0]", network),
        (json!({ "allowlist": ["192.0.2.0/33"] }), "spec.allowlist[0]", network),
        (
            json!({ "allowlist": ["192.0.2.0/24", "example.com"] }),
            "spec.allowlist[1]",
            network,
        ),
        (
            json!({ "maxMovesPerHour": 0 }),
            "spec.maxMovesPerHour",
            "greater than or equal to 1",
        ),
        (json!({ "pin": {} }), "spec.pin.node", "Required"),
        (json!({ "pin": { "node": "" } }), "spec.pin.node", "at least 1 char"),
        (
            json!({ "pin": { "node": "a", "until": "tomorrow" } }),
            "spec.pin.until",
            "date-time",
        ),
        (json!({ "hold": { "until": "later" } }), "spec.hold.until", "date-time"),
    ]
}

#[test]
fn a_wrong_manifest_is_refused_with_its_field_and_the_fix() {
    let groups = [
        floating_ip_refusals(),
        selector_refusals(),
        label_refusals(),
        duration_refusals(),
        probe_refusals(),
        other_refusals(),
    ];
    let refusals: Vec<Refusal> = groups.into_iter().flatten().collect();
    assert!(refusals.len() >= 25, "{}", refusals.len());
    with_server(|client| async move {
        let mut wrong = Vec::new();
        for (change, field, words) in refusals {
            let mut spec = json!({ "floatingIP": { "name": "web" } });
            for (name, value) in change.as_object().expect("fields") {
                spec[name] = value.clone();
            }
            match create(&client, "web", &spec).await {
                Ok(_) => wrong.push(format!("{change} is accepted")),
                Err(said) if said.contains(&format!("{field}: ")) && said.contains(words) => {}
                Err(said) => wrong.push(format!("{change} is rejected with {said}")),
            }
        }
        assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
    });
}

#[test]
fn a_name_that_is_no_label_value_is_refused() {
    with_server(|client| async move {
        let spec = json!({ "floatingIP": { "name": "web" } });
        let said = create(&client, &"w".repeat(64), &spec).await;
        let said = said.expect_err("too long");
        assert!(said.contains("at most 63 characters: shorten it"), "{said}");
    });
}

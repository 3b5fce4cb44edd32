//! Connectors, classes, claims and replicas that are rejected.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::Lab;
use crate::lab::{Refusal, words};

fn connector_refusals() -> Vec<Refusal> {
    let lease = |seconds: i64| json!({ "leaseDurationSeconds": seconds });
    let at = "spec.leaseDurationSeconds";
    vec![
        (lease(2), at, "greater than or equal to 3"),
        (lease(3601), at, "less than or equal to 3600"),
        (
            json!({ "connectorClassName": "a/b" }),
            "spec.connectorClassName",
            "like web-1",
        ),
    ]
}

fn class_refusals() -> Vec<Refusal> {
    let relay = |relay: &str| json!({ "relays": [relay] });
    let gateway = |id: &str| json!({ "gateways": [id] });
    let network = |network: &str| json!({ "backendNetworks": [network] });
    let cidr = "like 10.20.0.0/16";
    let (url, hex) = ("like https://relay.example.com", "64 hexadecimal digits");
    vec![
        (relay("relay.example.com"), "spec.relays[0]", url),
        (relay("ftp://relay.example.com"), "spec.relays[0]", url),
        (relay("https://user@relay.example.com"), "spec.relays[0]", url),
        (relay("https://relay.example.com/path"), "spec.relays[0]", url),
        (gateway(&"g".repeat(64)), "spec.gateways[0]", hex),
        (gateway(&"A".repeat(64)), "spec.gateways[0]", "lower case"),
        (gateway("abc"), "spec.gateways[0]", "at least 64"),
        (network("10.0.0.0"), "spec.backendNetworks[0]", cidr),
        (network("10.0.0.0/33"), "spec.backendNetworks[0]", cidr),
        (network("10.0.0.1/8"), "spec.backendNetworks[0]", cidr),
        (network("fd00::1/64"), "spec.backendNetworks[0]", cidr),
        (network("::ffff:10.0.0.0/104"), "spec.backendNetworks[0]", cidr),
        (network("web.default.svc"), "spec.backendNetworks[0]", cidr),
        (
            json!({ "gateways": ["a".repeat(64), "a".repeat(64)] }),
            "spec.gateways[1]",
            "Duplicate value",
        ),
        (json!({ "domain": "Tunnels.example.com" }), "spec.domain", "lower case"),
        (json!({ "domain": "*.example.com" }), "spec.domain", "wildcards"),
        (json!({ "domain": "192.0.2.7" }), "spec.domain", "domain name"),
        (json!({ "controllerName": "" }), "spec.controllerName", "at least 1"),
    ]
}

fn replica() -> Value {
    json!({
        "listen": "192.0.2.7:80", "endpointID": "a".repeat(64), "leaseDurationSeconds": 15,
        "renewTime": "2030-01-31T18:00:00.000000Z",
    })
}

fn replica_refusals() -> Vec<Refusal> {
    let many: Vec<Value> = (0..513)
        .map(|n| json!({ "namespace": "default", "name": format!("a{n}"), "reason": "" }))
        .collect();
    vec![
        (json!({ "listen": "gateway" }), "spec.listen", "like 192.0.2.7:80"),
        (json!({ "listenTLS": ":443" }), "spec.listenTLS", "like 192.0.2.7:80"),
        (
            json!({ "endpointID": "z".repeat(64) }),
            "spec.endpointID",
            "hexadecimal",
        ),
        (json!({ "leaseDurationSeconds": 0 }), "spec.leaseDurationSeconds", "1"),
        (json!({ "tunnels": -1 }), "spec.tunnels", "greater than or equal to 0"),
        (json!({ "quarantined": many }), "spec.quarantined", "at most 512"),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    lab.refuses("Connector", json!({}), connector_refusals()).await;
    lab.refuses("ConnectorClass", json!({}), class_refusals()).await;
    lab.refuses("GatewayReplica", replica(), replica_refusals()).await;
    let said = lab.create("Connector", "my.laptop", &json!({})).await;
    let said = said.expect_err("no label");
    assert!(said.contains("without dots"), "{said}");
    reject_details(&lab).await;
}

/// Details that an agent reports are validated like a spec.
async fn reject_details(lab: &Lab) {
    let api = lab.api("Connector");
    let object = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "Connector",
        "metadata": { "name": "laptop" }, "spec": {},
    });
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("accepted");
    let told = |id: String, address: &str| {
        let addresses = json!([{ "address": address, "port": 4433 }]);
        let key = json!({ "id": id, "addresses": addresses });
        json!({ "status": { "connectionDetails": { "publicKey": key, "session": "s1" } } })
    };
    let cases = [
        (told("a".repeat(64), "192.0.2.7"), None),
        (told("x".repeat(64), "192.0.2.7"), Some("hexadecimal")),
        (told("a".repeat(64), "laptop"), Some("not an IP address")),
    ];
    for (patch, refusal) in cases {
        let params = PatchParams::default();
        let patched = api.patch_status("laptop", &params, &Patch::Merge(&patch)).await;
        match (patched.map_err(words), refusal) {
            (Ok(_), None) => {}
            (Err(said), Some(words)) => assert!(said.contains(words), "{said}"),
            (outcome, _) => panic!("{patch}: {outcome:?}"),
        }
    }
}

pub(crate) async fn reject_claim_changes(lab: Lab) {
    let claimant = |uid: &str| json!({ "namespace": "default", "name": "web", "uid": uid });
    let claim = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HostnameClaim",
        "metadata": { "name": "app.example.com" }, "spec": { "claimant": claimant("one") },
    });
    let api = lab.api("HostnameClaim");
    let claim: DynamicObject = serde_json::from_value(claim).expect("an object");
    api.create(&PostParams::default(), &claim).await.expect("accepted");
    let patch = Patch::Merge(json!({ "spec": { "claimant": claimant("two") } }));
    let changed = api.patch("app.example.com", &PatchParams::default(), &patch).await;
    let said = words(changed.expect_err("it is immutable"));
    assert!(said.contains("spec is immutable: delete"), "{said}");
    let spec = json!({ "claimant": { "namespace": "default", "name": "web" } });
    let said = lab.create("HostnameClaim", "b.example.com", &spec).await;
    let said = said.expect_err("no UID");
    assert!(said.contains("spec.claimant.uid: Required"), "{said}");
}

//! The schema on an API server: rejected specs, their messages, and defaults.

mod refusals;

use std::future::Future;

use aplomb_api::StableEgress;
use aplomb_simulation::Simulation;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResourceExt};
use serde_json::{Value, json};

/// Runs `test` with a client of an API server that has our kinds.
fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F + Send + 'static) {
    Simulation::new(1).run(|cluster| async move {
        let client = cluster.client("admin");
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in aplomb_api::definitions() {
            let created = crds.create(&PostParams::default(), &definition).await;
            created.expect("the definition is valid");
        }
        let name = StableEgress::crd_name();
        let established = await_condition(crds, name, conditions::is_crd_established());
        established.await.expect("it is established");
        test(client).await;
    });
}

/// Creates a StableEgress of this spec; the server's message if it is rejected.
async fn create(client: &Client, name: &str, spec: &Value) -> Result<Value, String> {
    let kind = kube::api::ApiResource::erase::<StableEgress>(&());
    let object = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "StableEgress",
        "metadata": { "name": name }, "spec": spec,
    });
    let object = serde_json::from_value(object).expect("an object");
    let api: Api<kube::api::DynamicObject> = Api::all_with(client.clone(), &kind);
    let created = api.create(&PostParams::default(), &object).await;
    let created = created.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        other => panic!("not a response of the server: {other}"),
    })?;
    Ok(created.data["spec"].clone())
}

#[test]
fn the_shortest_manifest_is_given_every_default() {
    with_server(|client| async move {
        let spec = json!({ "floatingIP": { "name": "web" } });
        let created = create(&client, "web", &spec).await.expect("accepted");
        let expected = json!({
            "floatingIP": { "name": "web" },
            "health": {
                "signal": "ready",
                "probe": { "port": 9962, "interval": "10s", "timeout": "2s" },
            },
            "graces": { "unprepared": "5m", "surviveRestart": true },
            "resync": "30s",
            "dwell": "1m",
            "maxMovesPerHour": 6,
            "respectForeignMoves": "5m",
            "moveDeadline": "1m",
        });
        assert_eq!(created, expected);
    });
}

#[test]
fn a_manifest_with_every_field_is_accepted() {
    with_server(|client| async move {
        let spec = json!({
            "floatingIP": { "id": 4711 },
            "tokenSecretRef": { "name": "hcloud" },
            "candidates": {
                "matchLabels": { "pool": "egress" },
                "matchExpressions": [
                    { "key": "example.com/zone", "operator": "In", "values": ["a", "b"] },
                    { "key": "gpu", "operator": "DoesNotExist" },
                ],
            },
            "gatewayLabels": { "example.com/gateway": "web", "egress": "" },
            "health": {
                "signal": "probe",
                "probe": { "port": 4240, "interval": "5s", "timeout": "1.5s", "failures": 3 },
            },
            "graces": { "unhealthy": "0s", "unprepared": "1h30m", "surviveRestart": false },
            "allowlist": ["203.0.113.0/24", "2001:db8::/64"],
            "resync": "1m",
            "hold": { "until": "2030-01-31T18:00:00Z", "reason": "maintenance" },
            "pin": { "node": "gateway-1", "until": "2030-01-31T18:00:00Z" },
            "dwell": "0s",
            "maxMovesPerHour": 1,
            "respectForeignMoves": "0s",
            "moveDeadline": "30s",
            "prepared": {
                "namespace": "kube-system",
                "selector": { "matchLabels": { "app": "egress-host" } },
            },
        });
        let created = create(&client, "web", &spec).await.expect("accepted");
        assert_eq!(created["tokenSecretRef"]["key"], "token");
        serde_json::from_value::<aplomb_api::StableEgressSpec>(created).expect("understood");
    });
}

#[test]
fn a_long_name_is_fine_where_no_label_needs_it() {
    with_server(|client| async move {
        let spec = json!({
            "floatingIP": { "name": "web" },
            "candidates": { "matchLabels": { "pool": "egress" } },
            "gatewayLabels": { "example.com/gateway": "web" },
        });
        let name = "w".repeat(64);
        create(&client, &name, &spec).await.expect("accepted");
    });
}

/// Every field has a description for `kubectl explain`.
#[test]
fn every_field_is_described() {
    fn collect_undescribed(path: &str, schema: &Value, found: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if field["description"].as_str().is_none_or(str::is_empty) {
                found.push(path.clone());
            }
            collect_undescribed(&path, field, found);
            collect_undescribed(&path, &field["items"], found);
        }
    }
    for definition in aplomb_api::definitions() {
        for version in definition.spec.versions {
            let schema = version.schema.and_then(|v| v.open_api_v3_schema);
            let schema = serde_json::to_value(schema).expect("a schema");
            let mut found = Vec::new();
            collect_undescribed("", &schema, &mut found);
            assert_eq!(found, [""; 0]);
        }
    }
}

/// An API server limits the cost of rules by these bounds; without them it rejects the definition.
#[test]
fn every_list_map_and_text_of_the_spec_is_bounded() {
    fn collect_unbounded(path: &str, schema: &Value, found: &mut Vec<String>) {
        let bound = match schema["type"].as_str() {
            None if schema["x-kubernetes-int-or-string"] == true => "maxLength",
            Some("string") if schema["enum"].is_null() && schema["format"].is_null() => "maxLength",
            Some("array") => "maxItems",
            Some("object") if !schema["additionalProperties"].is_null() => "maxProperties",
            _ => "type",
        };
        if schema[bound].is_null() {
            found.push(path.to_owned());
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            collect_unbounded(&format!("{path}.{name}"), field, found);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                collect_unbounded(&format!("{path}[]"), &schema[inner], found);
            }
        }
    }
    for definition in aplomb_api::definitions() {
        let schema = serde_json::to_value(&definition).expect("a definition");
        let root = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut found = Vec::new();
        let kind = &definition.spec.names.kind;
        collect_unbounded(&format!("{kind}.spec"), &root["properties"]["spec"], &mut found);
        assert_eq!(found, [""; 0]);
    }
}

#[test]
fn conditions_are_a_map_by_type() {
    let mut seen = 0;
    for definition in aplomb_api::definitions() {
        let schema = serde_json::to_value(definition).expect("a definition");
        let root = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let conditions = &root["properties"]["status"]["properties"]["conditions"];
        if conditions.is_object() {
            seen += 1;
            assert_eq!(conditions["x-kubernetes-list-type"], "map");
            assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
        }
    }
    assert_eq!(
        seen, 5,
        "StableEgress, HTTPProxy, Connector and both of Coder's have conditions"
    );
}

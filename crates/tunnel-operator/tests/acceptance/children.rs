//! Promise: the status of the children shows when they stop being served, and when they are served again.

use aplomb_api::tunnel::{Connector, HostnameClaim, HttpProxy};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::agent::Agent;
use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, create_class, create_tunnel, on_box, seconds, until};
use crate::operator::Operator;

struct Running {
    operator: Operator,
    gateway: Gateway,
    agent: Agent,
}

/// A working tunnel whose children have the matching status.
async fn start_served(lab: &Lab) -> Running {
    let running = Running {
        operator: Operator::start(lab, "operator"),
        gateway: Gateway::start(lab, 1),
        agent: Agent::start(lab, "laptop", seconds(30)),
    };
    sleep(seconds(5)).await;
    create_tunnel(&lab.user(), "web", "laptop").await;
    lab.wait_ready("web", seconds(5)).await;
    wait_programmed(lab, "True", "Programmed").await;
    running
}

fn condition(status: &Value, kind: &str) -> (String, String) {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|it| it["type"] == kind);
    let word = |field: &str| {
        let word = found.as_ref().and_then(|it| it[field].as_str());
        word.unwrap_or_default().to_owned()
    };
    (word("status"), word("reason"))
}

fn child(lab: &Lab, plural: &str) -> Value {
    let server = lab.cluster.server();
    let stored = server.get("gateway.networking.k8s.io", plural, TENANT, "web");
    stored.map(|it| it["status"].clone()).unwrap_or_default()
}

fn programmed(lab: &Lab) -> (String, String) {
    condition(&child(lab, "gateways"), "Programmed")
}

/// Waits until the Gateway has this `Programmed` condition.
async fn wait_programmed(lab: &Lab, status: &str, reason: &str) {
    let wanted = (status.to_owned(), reason.to_owned());
    until(seconds(60), reason, || programmed(lab) == wanted).await;
}

#[test]
fn children_are_unserved_without_a_gateway_and_served_with_the_next() {
    on_box(1, |lab| async move {
        let running = start_served(&lab).await;
        running.gateway.component.freeze();
        wait_programmed(&lab, "False", "NoGateway").await;
        running.operator.component.crash();
        sleep(seconds(20)).await;
        assert_eq!(programmed(&lab), ("False".to_owned(), "NoGateway".to_owned()));
        running.gateway.component.thaw();
        wait_programmed(&lab, "True", "Programmed").await;
    });
}

#[test]
fn children_are_unserved_with_a_rejected_spec_and_served_with_the_next() {
    on_box(1, |lab| async move {
        let _running = start_served(&lab).await;
        let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
        let patch = Patch::Merge(json!({ "spec": { "connectorClassName": "later" } }));
        let patched = proxies.patch("web", &PatchParams::default(), &patch).await;
        patched.expect("patch succeeds");
        wait_programmed(&lab, "False", "ConnectorClassNotFound").await;
        let accepted = condition(&child(&lab, "gateways"), "Accepted");
        assert_eq!(accepted.0, "False");
        create_class(&lab.user(), "later", &json!({})).await;
        wait_programmed(&lab, "True", "Programmed").await;
    });
}

#[test]
fn children_are_unserved_without_their_connector_and_served_with_the_next() {
    on_box(1, |lab| async move {
        let running = start_served(&lab).await;
        let connectors: Api<Connector> = Api::namespaced(lab.user(), TENANT);
        let deleted = connectors.delete("laptop", &Default::default()).await;
        deleted.expect("the object is deleted");
        wait_programmed(&lab, "False", "ConnectorNotFound").await;
        let route = child(&lab, "httproutes");
        let resolved = condition(&route["parents"][0], "ResolvedRefs");
        assert_eq!(resolved, ("False".to_owned(), "BackendNotFound".to_owned()));
        running.agent.component.crash();
        wait_programmed(&lab, "True", "Programmed").await;
        running.agent.stop();
        wait_programmed(&lab, "False", "Released").await;
    });
}

#[test]
fn a_claim_that_is_deleted_is_made_again_and_costs_the_children_nothing() {
    on_box(1, |lab| async move {
        let _running = start_served(&lab).await;
        let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
        let patch = Patch::Merge(json!({ "spec": { "hostnames": ["app.example.com"] } }));
        let patched = proxies.patch("web", &PatchParams::default(), &patch).await;
        patched.expect("patch succeeds");
        let ready = || lab.is_ready("web") && lab.proxy("web").hostname_statuses.len() == 2;
        until(seconds(5), "it has its hostname", ready).await;
        let claims: Api<HostnameClaim> = Api::all(lab.user());
        let deleted = claims.delete("app.example.com", &Default::default()).await;
        deleted.expect("the object is deleted");
        let claimed = || {
            let server = lab.cluster.server();
            server
                .get("aplomb.dev", "hostnameclaims", "", "app.example.com")
                .is_some()
        };
        until(seconds(5), "it is claimed again", || claimed() && lab.is_ready("web")).await;
        assert_eq!(programmed(&lab).0, "True");
    });
}

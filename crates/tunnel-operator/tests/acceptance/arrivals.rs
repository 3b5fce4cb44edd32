//! Promise: in any order of events, a tunnel is ready within two seconds of the last thing it needs, and its
//! conditions show what it has lost.

use std::time::Duration;

use aplomb_api::tunnel::{Connector, HttpProxy};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::agent::Agent;
use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, assert_throughout, create_tunnel, on_box, seconds, until};
use crate::operator::Operator;

const LEASE: Duration = Duration::from_secs(30);
/// How long a tunnel may take.
const READY_LIMIT: Duration = Duration::from_secs(2);

/// A leading operator and a registered gateway.
async fn start_system(lab: &Lab) -> (Operator, Gateway) {
    let both = (Operator::start(lab, "operator"), Gateway::start(lab, 1));
    sleep(seconds(5)).await;
    both
}

async fn edit(lab: &Lab, name: &str, spec: Value) {
    let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
    let patch = Patch::Merge(json!({ "spec": spec }));
    let params = PatchParams::default();
    let patched = proxies.patch(name, &params, &patch).await;
    patched.expect("patch succeeds");
}

/// Waits until it is ready for its newest generation.
async fn wait_ready(lab: &Lab, name: &str, limit: Duration) -> Duration {
    until(limit, "the current generation is ready", || {
        let server = lab.cluster.server();
        let stored = server.get("aplomb.dev", "httpproxies", TENANT, name);
        let generation = stored.and_then(|it| it["metadata"]["generation"].as_i64());
        let conditions = lab.proxy(name).conditions;
        let mut ready = conditions.iter().filter(|it| it.type_ == "Ready");
        ready.any(|it| it.status == "True" && it.observed_generation == generation)
    })
    .await
}

#[test]
fn a_tunnel_without_its_connector_names_it_and_is_ready_when_it_exists() {
    on_box(1, |lab| async move {
        let _both = start_system(&lab).await;
        create_tunnel(&lab.user(), "web", "laptop").await;
        until(READY_LIMIT, "the condition names what is missing", || {
            lab.proxy_condition("web", "ConnectorOnline").reason == "ConnectorNotFound"
        })
        .await;
        let _agent = Agent::start(&lab, "laptop", LEASE);
        let took = wait_ready(&lab, "web", READY_LIMIT).await;
        println!("ready {took:?} after its connector was created");
    });
}

#[test]
fn a_tunnel_needs_no_heartbeat_to_come() {
    on_box(1, |lab| async move {
        let _both = start_system(&lab).await;
        let agent = Agent::start(&lab, "laptop", seconds(1_200));
        lab.wait_online("laptop", seconds(5)).await;
        sleep(seconds(60)).await;
        // No further heartbeat, but it still responds to proofs.
        agent.component.freeze();
        create_tunnel(&lab.user(), "web", "laptop").await;
        let took = wait_ready(&lab, "web", READY_LIMIT).await;
        println!("a lease of 1,200 s and no heartbeat: ready after {took:?}");
    });
}

#[test]
fn a_tunnel_that_is_repointed_is_ready_again() {
    on_box(1, |lab| async move {
        let _both = start_system(&lab).await;
        let _agents = ["laptop", "desktop"].map(|name| Agent::start(&lab, name, LEASE));
        create_tunnel(&lab.user(), "web", "laptop").await;
        wait_ready(&lab, "web", seconds(5)).await;
        let backends = json!([
            { "endpoint": "http://localhost:3000", "connector": { "name": "desktop" } },
        ]);
        edit(&lab, "web", json!({ "rules": [{ "backends": backends }] })).await;
        let took = wait_ready(&lab, "web", READY_LIMIT).await;
        println!("ready {took:?} after its backend changed");
    });
}

/// Creates a Connector with the details of another.
async fn copy(lab: &Lab, name: &str, of: &str) {
    let connectors: Api<Connector> = Api::namespaced(lab.user(), TENANT);
    let head = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "Connector", "metadata": { "name": name },
        "spec": {},
    });
    let made = serde_json::from_value(head).expect("a Connector");
    let made = connectors.create(&PostParams::default(), &made).await;
    made.expect("Connector is created");
    let details = lab.connector(of).connection_details;
    let patch = Patch::Merge(json!({ "status": { "connectionDetails": details } }));
    let params = PatchParams::default();
    let patched = connectors.patch_status(name, &params, &patch).await;
    patched.expect("status is written");
}

#[test]
fn a_copy_of_a_connector_is_refused_and_the_original_stays_ready() {
    on_box(1, |lab| async move {
        let _both = start_system(&lab).await;
        let _agent = Agent::start(&lab, "laptop", LEASE);
        create_tunnel(&lab.user(), "web", "laptop").await;
        wait_ready(&lab, "web", seconds(5)).await;
        copy(&lab, "copy", "laptop").await;
        create_tunnel(&lab.user(), "theft", "copy").await;
        until(READY_LIMIT, "the tunnel is refused", || {
            lab.proxy_condition("theft", "Ready").reason == "ProofRefused"
        })
        .await;
        assert_throughout(seconds(60), "one works and the other does not", || {
            lab.is_ready("web") && !lab.is_ready("theft")
        })
        .await;
    });
}

/// The response of a distant agent is late at first, and in time for the second probe.
#[test]
fn a_distant_agent_is_proven_at_the_shortest_interval() {
    on_box(1, |lab| async move {
        let _both = start_system(&lab).await;
        lab.net.set_distance(Duration::from_millis(200));
        let _agent = Agent::start(&lab, "laptop", LEASE);
        create_tunnel(&lab.user(), "web", "laptop").await;
        edit(&lab, "web", json!({ "proofInterval": "2s" })).await;
        wait_ready(&lab, "web", seconds(5)).await;
        assert_throughout(seconds(30), "the tunnel is ready", || lab.is_ready("web")).await;
    });
}

#[test]
fn a_restarted_agent_is_proven_again() {
    on_box(1, |lab| async move {
        let _both = start_system(&lab).await;
        let agent = Agent::start(&lab, "laptop", LEASE);
        create_tunnel(&lab.user(), "web", "laptop").await;
        wait_ready(&lab, "web", seconds(5)).await;
        sleep(seconds(20)).await;
        agent.component.crash();
        sleep(Duration::from_millis(50)).await;
        let took = wait_ready(&lab, "web", READY_LIMIT).await;
        println!("ready {took:?} after the agent restarted");
        sleep(seconds(60)).await;
        assert!(lab.is_ready("web"));
    });
}

#[test]
fn a_second_gateway_and_a_restarted_one_are_proven_too() {
    on_box(1, |lab| async move {
        let (_operator, first) = start_system(&lab).await;
        let _agent = Agent::start(&lab, "laptop", LEASE);
        create_tunnel(&lab.user(), "web", "laptop").await;
        wait_ready(&lab, "web", seconds(5)).await;
        let _second = Gateway::start(&lab, 2);
        sleep(READY_LIMIT).await;
        wait_ready(&lab, "web", Duration::from_millis(1)).await;
        first.component.crash();
        sleep(READY_LIMIT).await;
        let took = wait_ready(&lab, "web", READY_LIMIT).await;
        println!("two gateways, one crashed: ready {:?} after it", took + READY_LIMIT);
    });
}

#[test]
fn a_dead_agent_is_named_whatever_the_interval_of_proofs() {
    for interval in ["2s", "3s", "4799ms", "4800ms", "5s", "10s"] {
        on_box(1, move |lab| async move {
            let _both = start_system(&lab).await;
            let agent = Agent::start(&lab, "laptop", LEASE);
            create_tunnel(&lab.user(), "web", "laptop").await;
            edit(&lab, "web", json!({ "proofInterval": interval })).await;
            wait_ready(&lab, "web", seconds(5)).await;
            sleep(seconds(20)).await;
            agent.kill();
            until(seconds(12), "the tunnel is not ready", || !lab.is_ready("web")).await;
            assert_throughout(seconds(15), "the gateway is not blamed", || {
                let ready = lab.proxy_condition("web", "Ready");
                assert_eq!(ready.reason, "ConnectorOffline", "{interval}: {ready:?}");
                true
            })
            .await;
        });
    }
}

#[test]
fn a_dead_agent_shows_within_a_proof_and_its_lease() {
    on_box(1, |lab| async move {
        let _both = start_system(&lab).await;
        let agent = Agent::start(&lab, "laptop", LEASE);
        create_tunnel(&lab.user(), "web", "laptop").await;
        wait_ready(&lab, "web", seconds(5)).await;
        sleep(seconds(33)).await;
        agent.kill();
        let took = until(seconds(12), "the tunnel is not ready", || !lab.is_ready("web")).await;
        println!("killed: not ready after {took:?}");
        lab.wait_offline("laptop", LEASE + seconds(2)).await;
        agent.resume();
        let took = wait_ready(&lab, "web", seconds(15)).await;
        println!("back: ready after {took:?}");
    });
}

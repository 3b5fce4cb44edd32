//! Promise: the online state of a connector is determined in time, by the operator's clock only, and a
//! restarted operator does not report what it has not observed.

use std::time::Duration;

use aplomb_api::tunnel::Connector;
use aplomb_simulation::faults::{Fault, Match, Rule, WatchFault};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use crate::agent::{Agent, identity};
use crate::lab::{Lab, TENANT, assert_throughout, create_class, on_box, seconds, until};
use crate::operator::Operator;
use crate::replica::Replica;

const LEASE: Duration = Duration::from_secs(30);

async fn start_settled(lab: &Lab) -> (Operator, Agent) {
    let operator = Operator::start(lab, "operator");
    let agent = Agent::start(lab, "laptop", LEASE);
    lab.wait_online("laptop", seconds(5)).await;
    (operator, agent)
}

#[test]
fn a_connector_is_ready_when_its_agent_is_there() {
    on_box(1, |lab| async move {
        let operator = Operator::start(&lab, "operator");
        until(seconds(5), "the operator runs", || operator.component.effects() > 0).await;
        let _agent = Agent::start(&lab, "laptop", LEASE);
        let took = lab.wait_online("laptop", seconds(2)).await;
        println!("online {took:?} after the agent started");
        assert!(took < seconds(1), "{took:?}");
        for kind in ["Accepted", "Online", "Ready"] {
            assert_eq!(lab.condition("laptop", kind).status, "True", "{kind}");
        }
        let status = lab.connector("laptop");
        assert_eq!(status.lease_ref.expect("a lease").name, "laptop");
        assert_eq!(status.gateways, Some(vec![]));
        assert!(status.last_seen.is_some() && status.offline_since.is_none());
    });
}

#[test]
fn a_released_connector_is_offline_in_less_than_a_second() {
    on_box(1, |lab| async move {
        let (_operator, agent) = start_settled(&lab).await;
        sleep(seconds(47)).await;
        agent.stop();
        let took = lab.wait_offline("laptop", seconds(5)).await;
        println!("released: offline after {took:?}");
        assert!(took < seconds(1), "{took:?}");
        assert_eq!(lab.condition("laptop", "Online").reason, "Released");
        assert!(lab.connector("laptop").offline_since.is_some());
        sleep(seconds(5)).await;
        assert!(lab.events().contains(&"Offline".to_owned()));
    });
}

#[test]
fn a_dead_agent_is_offline_when_its_lease_is_over() {
    for (seed, lease) in [(1, 30), (2, 5), (3, 120), (4, 1_200)] {
        let took = on_box(seed, move |lab| async move {
            let _operator = Operator::start(&lab, "operator");
            let agent = Agent::start(&lab, "laptop", seconds(lease));
            lab.wait_online("laptop", seconds(5)).await;
            sleep(seconds(3 * lease + 7)).await;
            agent.kill();
            let took = lab.wait_offline("laptop", seconds(2 * lease)).await;
            assert_eq!(lab.condition("laptop", "Online").reason, "LeaseExpired");
            agent.resume();
            lab.wait_online("laptop", seconds(lease)).await;
            took
        });
        println!("killed, a lease of {lease} s: offline after {took:?}");
        assert!(took <= seconds(lease + 2), "{took:?}");
        assert!(took >= seconds(lease * 2 / 3 - 1), "not too soon: {took:?}");
    }
}

#[test]
fn no_clock_of_an_agent_matters() {
    for skew in [-3_600_000, 3_600_000] {
        on_box(1, move |lab| async move {
            let (_operator, agent) = start_settled(&lab).await;
            let turns = lab.follow_status();
            agent.component.skew_millis(skew);
            sleep(seconds(600)).await;
            agent.component.skew_millis(0);
            sleep(seconds(600)).await;
            assert_eq!(turns.all(), Vec::<String>::new());
            agent.kill();
            let took = lab.wait_offline("laptop", seconds(60)).await;
            assert!(took <= LEASE + seconds(2), "{took:?}");
        });
    }
}

#[test]
fn a_restart_of_the_operator_shows_no_flap() {
    on_box(1, |lab| async move {
        let (operator, agent) = start_settled(&lab).await;
        let turns = lab.follow_status();
        for _ in 0..5 {
            sleep(seconds(23)).await;
            operator.component.crash();
        }
        sleep(seconds(60)).await;
        assert_eq!(turns.all(), Vec::<String>::new(), "alive all the time");
        agent.kill();
        lab.wait_offline("laptop", seconds(60)).await;
        sleep(seconds(5)).await;
        let before = turns.all();
        for _ in 0..3 {
            operator.component.crash();
            sleep(seconds(90)).await;
        }
        assert_eq!(turns.all(), before, "dead all the time");
        agent.resume();
        lab.wait_online("laptop", LEASE).await;
    });
}

#[test]
fn an_agent_that_returned_unobserved_is_online() {
    on_box(1, |lab| async move {
        let (operator, agent) = start_settled(&lab).await;
        agent.kill();
        lab.wait_offline("laptop", seconds(60)).await;
        operator.component.freeze();
        agent.resume();
        sleep(seconds(20)).await;
        operator.component.thaw();
        operator.component.crash();
        let took = lab.wait_online("laptop", seconds(60)).await;
        println!("back while the operator was down: online {took:?} after its start");
    });
}

#[test]
fn a_watch_that_dies_silently_sets_no_connector_offline() {
    on_box(1, |lab| async move {
        let dead = Fault::Watch(WatchFault::BlackHoled(seconds(20)));
        let leases = Match::watches().resource("leases");
        lab.cluster.faults("operator").add(Rule::new(dead).on(leases));
        let (_operator, agent) = start_settled(&lab).await;
        let online = || lab.is_online("laptop");
        assert_throughout(seconds(600), "the connector is online", online).await;
        agent.kill();
        let took = lab.wait_offline("laptop", seconds(90)).await;
        println!("killed while the watch was broken: offline after {took:?}");
        // The missed heartbeats are read when a lease seems to have expired, one lease later.
        assert!(took <= 2 * LEASE + seconds(2), "{took:?}");
    });
}

#[test]
fn an_outage_of_the_server_sets_no_connector_offline() {
    on_box(1, |lab| async move {
        let (_operator, _agent) = start_settled(&lab).await;
        sleep(seconds(100)).await;
        let turns = lab.follow_status();
        let now = lab.cluster.trace().elapsed();
        for who in ["operator".to_owned(), identity("laptop")] {
            let down = Rule::new(Fault::ServiceUnavailable);
            let down = down.between(now, now + seconds(90));
            lab.cluster.faults(&who).add(down);
        }
        sleep(seconds(300)).await;
        assert_eq!(turns.all(), Vec::<String>::new());
        assert!(lab.is_online("laptop"));
    });
}

#[test]
fn a_deleted_lease_does_not_set_the_connector_offline() {
    on_box(1, |lab| async move {
        let (_operator, _agent) = start_settled(&lab).await;
        sleep(seconds(42)).await;
        let turns = lab.follow_status();
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(lab.user(), TENANT);
        let deleted = leases.delete("laptop", &Default::default()).await;
        deleted.expect("the Lease is deleted");
        sleep(seconds(60)).await;
        assert_eq!(turns.all(), Vec::<String>::new());
    });
}

#[test]
fn a_missing_class_is_reported_and_recovers() {
    on_box(1, |lab| async move {
        let (_operator, _agent) = start_settled(&lab).await;
        let connectors: Api<Connector> = Api::namespaced(lab.user(), TENANT);
        let other = Patch::Merge(json!({ "spec": { "connectorClassName": "other" } }));
        let params = PatchParams::default();
        let patched = connectors.patch("laptop", &params, &other).await;
        patched.expect("patch succeeds");
        until(seconds(2), "the condition is set", || {
            lab.condition("laptop", "Accepted").reason == "ConnectorClassNotFound"
        })
        .await;
        let ready = lab.condition("laptop", "Ready");
        assert_eq!(ready.reason, "ConnectorClassNotFound");
        assert!(ready.message.contains("create it"), "{ready:?}");
        let [one, two] = ["aa", "bb"].map(|it| it.repeat(32));
        let spec = json!({ "relays": ["https://relay.example.com"], "gateways": [two, one] });
        create_class(&lab.user(), "other", &spec).await;
        until(seconds(2), "the connector is ready", || {
            lab.condition("laptop", "Ready").status == "True"
        })
        .await;
        let status = lab.connector("laptop");
        let listed = Some(vec![one, two]);
        assert_eq!(status.gateways, listed);
        let relays = vec!["https://relay.example.com".to_owned()];
        assert_eq!(status.relays, Some(relays));
    });
}

#[test]
fn a_session_that_no_gateway_has_is_offline_though_the_lease_is_renewed() {
    on_box(1, |lab| async move {
        let (_operator, _agent) = start_settled(&lab).await;
        let (one, two) = (Replica::start(&lab, "one"), Replica::start(&lab, "two"));
        until(seconds(5), "both are listed", || {
            lab.connector("laptop").gateways.unwrap_or_default().len() == 2
        })
        .await;
        let online = || lab.is_online("laptop");
        one.lose_session(&lab, "laptop");
        assert_throughout(seconds(20), "the other gateway has a session", online).await;
        two.lose_session(&lab, "laptop");
        assert_throughout(seconds(2), "the session may come back shortly", online).await;
        let took = lab.wait_offline("laptop", seconds(5)).await;
        println!("lost by every gateway: offline after {:?}", took + seconds(2));
        assert_eq!(lab.condition("laptop", "Online").reason, "SessionLost");
        assert_throughout(seconds(60), "heartbeats alone do not count", || !online()).await;
        two.restore_sessions();
        let took = lab.wait_online("laptop", seconds(5)).await;
        assert!(took < seconds(1), "{took:?}");
    });
}

#[test]
fn a_briefly_lost_session_is_not_a_transition() {
    on_box(1, |lab| async move {
        let (_operator, _agent) = start_settled(&lab).await;
        let gateway = Replica::start(&lab, "one");
        sleep(seconds(5)).await;
        let turns = lab.follow_status();
        for _ in 0..10 {
            gateway.lose_session(&lab, "laptop");
            sleep(Duration::from_millis(2_500)).await;
            gateway.restore_sessions();
            sleep(seconds(7)).await;
        }
        assert_eq!(turns.all(), Vec::<String>::new());
    });
}

#[test]
fn a_dead_gateway_is_ignored() {
    on_box(1, |lab| async move {
        let (_operator, _agent) = start_settled(&lab).await;
        let (dead, alive) = (Replica::start(&lab, "dead"), Replica::start(&lab, "alive"));
        sleep(seconds(20)).await;
        dead.component.freeze();
        alive.lose_session(&lab, "laptop");
        let took = lab.wait_offline("laptop", seconds(30)).await;
        println!("lost by every gateway but a dead one: offline after {took:?}");
        assert!(took <= seconds(20), "{took:?}");
    });
}

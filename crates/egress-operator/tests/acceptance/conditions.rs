//! Guarantee: whatever prevents traffic from leaving through the floating IP, Available is False
//! with the reason within one resync, and True again once it is fixed.

use std::time::Duration;

use aplomb_api::egress::reasons;
use aplomb_fake_services::hcloud::{Fault, When};
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, SECRET, TOKEN, WEB, floating_ip, on_box, seconds, server, until};
use crate::moves::{assigns, wait_random};
use crate::nodes;
use crate::operator::Replica;

/// A resync is 30 s plus up to a tenth as jitter.
const RESYNC: Duration = Duration::from_secs(34);

/// Waits until Available is False with this reason, in the condition and in the metric.
async fn wait_unavailable(lab: &Lab, replica: &Replica, reason: &str) {
    let shown = || {
        let available = lab.condition(WEB, "Available");
        available.status == "False" && available.reason == reason
    };
    let took = until(RESYNC, reason, shown).await;
    println!("Available=False, {reason}: after {took:.1?}");
    assert_eq!(lab.condition(WEB, "Ready").status, "False");
    let available = ["aplomb_egress_gateway_available", "web"];
    assert_eq!(replica.metric(&available), Some(0.0), "{reason}");
    let message = lab.condition(WEB, "Available").message;
    assert!(message.len() > 20, "{reason}: {message}");
}

async fn wait_available(lab: &Lab, replica: &Replica) {
    let shown = || lab.condition(WEB, "Available").status == "True";
    until(RESYNC + seconds(10), "available again", shown).await;
    let available = ["aplomb_egress_gateway_available", "web"];
    assert_eq!(replica.metric(&available), Some(1.0));
}

async fn start_settled(lab: &Lab) -> Replica {
    let replica = lab.start_settled(2, &json!({ "respectForeignMoves": "40s" })).await;
    wait_random(lab).await;
    replica
}

fn fault_after(how: impl FnOnce(&mut Fault)) -> Fault {
    let mut fault = Fault::default();
    how(&mut fault);
    fault
}

#[test]
fn an_address_that_is_not_allowed_is_reported_and_never_assigned() {
    on_box(1, |lab| async move {
        lab.candidates(WEB, 2).await;
        lab.floating_ip(0, WEB, |_| {});
        lab.egress(WEB, &json!({ "allowlist": ["198.51.100.0/24"] })).await;
        let replica = Replica::start(&lab, "first");
        wait_unavailable(&lab, &replica, reasons::NOT_ALLOWED).await;
        sleep(seconds(120)).await;
        assert_eq!((assigns(&lab), lab.gateways().len()), (0, 0));
        lab.edit(WEB, &json!({ "spec": { "allowlist": ["203.0.113.0/24"] } }))
            .await;
        lab.wait_serving(0, RESYNC).await;
    });
}

#[test]
fn a_provider_that_is_down_is_reported() {
    let ways = [
        fault_after(|it| it.status = Some(503)),
        fault_after(|it| it.status = Some(500)),
        fault_after(|it| it.reset = Some(When::Before)),
        fault_after(|it| it.hang = Some(When::Before)),
    ];
    for fault in ways {
        on_box(1, |lab| async move {
            let replica = start_settled(&lab).await;
            let hangs = fault.hang.is_some();
            lab.hetzner.fault(fault);
            if hangs {
                // Deadline of a call that gets no response.
                sleep(seconds(5)).await;
            }
            wait_unavailable(&lab, &replica, reasons::PROVIDER_UNREACHABLE).await;
            assert_eq!(lab.condition(WEB, "ProviderReachable").status, "False");
            assert_eq!(
                lab.labeled.single_node(WEB),
                Some(nodes::name(0)),
                "nothing else is touched"
            );
            lab.hetzner.clear_faults(None);
            wait_available(&lab, &replica).await;
        });
    }
}

#[test]
fn a_blocked_address_is_reported() {
    on_box(1, |lab| async move {
        let replica = start_settled(&lab).await;
        lab.floating_ip(0, WEB, |it| it.blocked = true);
        wait_unavailable(&lab, &replica, reasons::BLOCKED).await;
        lab.floating_ip(0, WEB, |it| it.blocked = false);
        wait_available(&lab, &replica).await;
    });
}

#[test]
fn an_address_that_is_elsewhere_is_reported_and_taken_back_in_time() {
    on_box(1, |lab| async move {
        let replica = start_settled(&lab).await;
        let mut servers = lab.hetzner.state().servers;
        servers.push(server(77));
        lab.change(aplomb_fake_services::hcloud::Change {
            servers: Some(servers),
            ..Default::default()
        });
        lab.move_manually(Some(nodes::server(77)));
        wait_unavailable(&lab, &replica, reasons::ELSEWHERE).await;
        sleep(seconds(30)).await;
        assert_eq!(lab.hetzner.holder(floating_ip(0)), Some(nodes::server(77)), "respected");
        lab.wait_serving(0, seconds(45)).await;
    });
}

#[test]
fn an_address_on_no_server_is_assigned_at_once() {
    on_box(1, |lab| async move {
        let _replica = start_settled(&lab).await;
        lab.move_manually(None);
        let holder = || lab.hetzner.holder(floating_ip(0)) == Some(nodes::server(0));
        until(RESYNC + seconds(2), "assigned", holder).await;
        assert_eq!(lab.labeled.single_node(WEB), Some(nodes::name(0)));
    });
}

#[test]
fn no_candidate_left_is_reported_three_ways() {
    on_box(1, |lab| async move {
        let replica = start_settled(&lab).await;
        for number in 0..2 {
            lab.nodes.remove_candidate_label(number).await;
        }
        wait_unavailable(&lab, &replica, reasons::NO_CANDIDATE).await;
        let told = || lab.events().iter().any(|(reason, _)| reason == reasons::NO_CANDIDATE);
        until(seconds(10), "an Event", told).await;
        let ready = ["aplomb_egress_ready_candidates", "web"];
        assert_eq!(replica.metric(&ready), Some(0.0));
        let state = ["aplomb_egress_gateway_state", "web", "NoCandidate"];
        assert_eq!(replica.metric(&state), Some(1.0));
        lab.nodes
            .label(0, aplomb_api::egress::labels::CANDIDATE, Some(WEB))
            .await;
        wait_available(&lab, &replica).await;
    });
}

#[test]
fn a_token_that_is_missing_or_refused_is_reported_and_a_new_one_is_used() {
    on_box(1, |lab| async move {
        let replica = start_settled(&lab).await;
        lab.secret(SECRET, "not-the-token-of-anybody-at-all").await;
        wait_unavailable(&lab, &replica, reasons::UNAUTHORIZED).await;
        lab.secret(SECRET, TOKEN).await;
        wait_available(&lab, &replica).await;
        lab.edit(WEB, &json!({ "spec": { "tokenSecretRef": { "name": "nowhere" } } }))
            .await;
        wait_unavailable(&lab, &replica, reasons::NO_TOKEN).await;
        lab.edit(WEB, &json!({ "spec": { "tokenSecretRef": { "name": SECRET } } }))
            .await;
        wait_available(&lab, &replica).await;
    });
}

#[test]
fn a_floating_ip_that_is_not_there_is_reported() {
    on_box(1, |lab| async move {
        lab.candidates(WEB, 2).await;
        lab.egress(WEB, &json!({})).await;
        let replica = Replica::start(&lab, "first");
        wait_unavailable(&lab, &replica, reasons::NO_FLOATING_IP).await;
        lab.floating_ip(0, WEB, |_| {});
        lab.wait_serving(0, RESYNC + seconds(5)).await;
    });
}

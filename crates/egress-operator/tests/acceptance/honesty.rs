//! Promise: whatever keeps traffic from leaving through the floating IP, Available is False with the
//! reason within one resync, and True again when it is gone.

use std::time::Duration;

use aplomb_api::egress::reasons;
use aplomb_fake_services::hcloud::{Fault, When};
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, SECRET, TOKEN, WEB, floating_ip, on_box, seconds, server, until};
use crate::moves::{assigns, some_time};
use crate::nodes;
use crate::operator::Replica;

/// A resync is 30 s and up to a tenth later.
const RESYNC: Duration = Duration::from_secs(34);

/// Waits until Available is False for this reason; and that the metric says so too.
async fn unavailable(lab: &Lab, replica: &Replica, reason: &str) {
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

async fn available(lab: &Lab, replica: &Replica) {
    let shown = || lab.condition(WEB, "Available").status == "True";
    until(RESYNC + seconds(10), "available again", shown).await;
    let available = ["aplomb_egress_gateway_available", "web"];
    assert_eq!(replica.metric(&available), Some(1.0));
}

async fn settled(lab: &Lab) -> Replica {
    let replica = lab
        .settled(2, &json!({ "respectForeignMoves": "40s" }))
        .await;
    some_time(lab).await;
    replica
}

fn down(how: impl FnOnce(&mut Fault)) -> Fault {
    let mut fault = Fault::default();
    how(&mut fault);
    fault
}

#[test]
fn an_address_that_is_not_allowed_is_said_and_never_assigned() {
    on_box(1, |lab| async move {
        lab.candidates(WEB, 2).await;
        lab.floating_ip(0, WEB, |_| {});
        lab.egress(WEB, &json!({ "allowlist": ["198.51.100.0/24"] }))
            .await;
        let replica = Replica::start(&lab, "first");
        unavailable(&lab, &replica, reasons::NOT_ALLOWED).await;
        sleep(seconds(120)).await;
        assert_eq!((assigns(&lab), lab.gateways().len()), (0, 0));
        lab.edit(WEB, &json!({ "spec": { "allowlist": ["203.0.113.0/24"] } }))
            .await;
        lab.serves(0, RESYNC).await;
    });
}

#[test]
fn a_provider_that_is_down_is_said() {
    let ways = [
        down(|it| it.status = Some(503)),
        down(|it| it.status = Some(500)),
        down(|it| it.reset = Some(When::Before)),
        down(|it| it.hang = Some(When::Before)),
    ];
    for fault in ways {
        on_box(1, |lab| async move {
            let replica = settled(&lab).await;
            let hangs = fault.hang.is_some();
            lab.hetzner.fault(fault);
            if hangs {
                // A call that is not answered is given up after this.
                sleep(seconds(5)).await;
            }
            unavailable(&lab, &replica, reasons::PROVIDER_UNREACHABLE).await;
            assert_eq!(lab.condition(WEB, "ProviderReachable").status, "False");
            assert_eq!(
                lab.labelled.only(WEB),
                Some(nodes::name(0)),
                "nothing else is touched"
            );
            lab.hetzner.clear_faults(None);
            available(&lab, &replica).await;
        });
    }
}

#[test]
fn a_blocked_address_is_said() {
    on_box(1, |lab| async move {
        let replica = settled(&lab).await;
        lab.floating_ip(0, WEB, |it| it.blocked = true);
        unavailable(&lab, &replica, reasons::BLOCKED).await;
        lab.floating_ip(0, WEB, |it| it.blocked = false);
        available(&lab, &replica).await;
    });
}

#[test]
fn an_address_that_is_elsewhere_is_said_and_taken_back_in_time() {
    on_box(1, |lab| async move {
        let replica = settled(&lab).await;
        let mut servers = lab.hetzner.state().servers;
        servers.push(server(77));
        lab.change(aplomb_fake_services::hcloud::Change {
            servers: Some(servers),
            ..Default::default()
        });
        lab.moved_by_hand(Some(nodes::server(77)));
        unavailable(&lab, &replica, reasons::ELSEWHERE).await;
        sleep(seconds(30)).await;
        assert_eq!(
            lab.hetzner.holder(floating_ip(0)),
            Some(nodes::server(77)),
            "respected"
        );
        lab.serves(0, seconds(45)).await;
    });
}

#[test]
fn an_address_on_no_server_is_assigned_at_once() {
    on_box(1, |lab| async move {
        let _replica = settled(&lab).await;
        lab.moved_by_hand(None);
        let holder = || lab.hetzner.holder(floating_ip(0)) == Some(nodes::server(0));
        until(RESYNC + seconds(2), "assigned", holder).await;
        assert_eq!(lab.labelled.only(WEB), Some(nodes::name(0)));
    });
}

#[test]
fn no_candidate_left_is_said_three_times() {
    on_box(1, |lab| async move {
        let replica = settled(&lab).await;
        for number in 0..2 {
            lab.nodes.no_candidate(number).await;
        }
        unavailable(&lab, &replica, reasons::NO_CANDIDATE).await;
        let told = || {
            lab.events()
                .iter()
                .any(|(reason, _)| reason == reasons::NO_CANDIDATE)
        };
        until(seconds(10), "an Event", told).await;
        let ready = ["aplomb_egress_ready_candidates", "web"];
        assert_eq!(replica.metric(&ready), Some(0.0));
        let state = ["aplomb_egress_gateway_state", "web", "NoCandidate"];
        assert_eq!(replica.metric(&state), Some(1.0));
        lab.nodes
            .label(0, aplomb_api::egress::labels::CANDIDATE, Some(WEB))
            .await;
        available(&lab, &replica).await;
    });
}

#[test]
fn a_token_that_is_missing_or_refused_is_said_and_a_new_one_is_picked_up() {
    on_box(1, |lab| async move {
        let replica = settled(&lab).await;
        lab.secret(SECRET, "not-the-token-of-anybody-at-all").await;
        unavailable(&lab, &replica, reasons::UNAUTHORIZED).await;
        lab.secret(SECRET, TOKEN).await;
        available(&lab, &replica).await;
        lab.edit(
            WEB,
            &json!({ "spec": { "tokenSecretRef": { "name": "nowhere" } } }),
        )
        .await;
        unavailable(&lab, &replica, reasons::NO_TOKEN).await;
        lab.edit(
            WEB,
            &json!({ "spec": { "tokenSecretRef": { "name": SECRET } } }),
        )
        .await;
        available(&lab, &replica).await;
    });
}

#[test]
fn a_floating_ip_that_is_not_there_is_said() {
    on_box(1, |lab| async move {
        lab.candidates(WEB, 2).await;
        lab.egress(WEB, &json!({})).await;
        let replica = Replica::start(&lab, "first");
        unavailable(&lab, &replica, reasons::NO_FLOATING_IP).await;
        lab.floating_ip(0, WEB, |_| {});
        lab.serves(0, RESYNC + seconds(5)).await;
    });
}

//! Guarantee: a working gateway keeps its label until another node is known to hold the floating
//! IP, however often the provider refuses. Checked on every version of every Node.

use std::time::Duration;

use aplomb_fake_services::hcloud::Fault;
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, WEB, floating_ip, on_box, seconds};
use crate::moves::{assigns, wait_random};
use crate::nodes;

/// The ways in which the provider refuses every Assign.
fn refusals() -> Vec<Fault> {
    let all = |code: Option<&str>, status| Fault {
        method: Some("POST".to_owned()),
        path: Some("/floating_ips/*/actions/assign".to_owned()),
        code: code.map(str::to_owned),
        status,
        ..Fault::default()
    };
    vec![
        all(Some("rate_limit_exceeded"), None),
        all(Some("locked"), None),
        all(Some("server_error"), None),
        all(Some("unavailable"), None),
        all(None, Some(502)),
        all(None, Some(504)),
    ]
}

/// Five minutes of refusals, then none. Returns how long no node had the label, and how many
/// Assigns were sent.
async fn run_refused(lab: Lab, fault: Fault) -> (Duration, usize) {
    let throttled = fault.code.as_deref() == Some("rate_limit_exceeded");
    let _replica = lab.start_settled(3, &json!({})).await;
    wait_random(&lab).await;
    let (before, calls) = (assigns(&lab), lab.hetzner.requests().len());
    lab.hetzner.fault(fault);
    lab.nodes.cordon(0, true).await;
    sleep(seconds(300)).await;
    let moments = lab.labeled.moments(WEB);
    assert_eq!(moments.len(), 1, "the label was touched: {moments:?}");
    assert_eq!(lab.labeled.single_node(WEB), Some(nodes::name(0)));
    assert_eq!(lab.hetzner.holder(floating_ip(0)), Some(nodes::server(0)));
    let tried = assigns(&lab) - before;
    let calls = lab.hetzner.requests().len() - calls;
    assert!(
        throttled || calls < 200,
        "{calls} calls in 5 min count for all users of the token"
    );
    lab.hetzner.clear_faults(None);
    lab.wait_serving(1, seconds(15)).await;
    assert_eq!(lab.labeled.max_nodes(WEB), 1, "never two nodes");
    (lab.labeled.time_without_node(WEB), tried)
}

#[test]
fn a_planned_move_that_is_refused_costs_the_old_gateway_nothing() {
    for fault in refusals() {
        let how = (fault.code.clone(), fault.status);
        let (none, tried) = on_box(3, move |lab| run_refused(lab, fault));
        println!("Assign refused with {how:?} for 5 min: {tried} tries, then no label for {none:?}");
        // At least every 5 s, and never more than the refill of the bucket.
        assert!((50..=300).contains(&tried), "{tried}");
        assert!(none < seconds(1), "{none:?}");
    }
}

#[test]
fn on_a_successful_move_two_never_have_the_label() {
    let mut times = Vec::new();
    for seed in 0..8 {
        let none = on_box(seed, |lab| async move {
            let _replica = lab.start_settled(3, &json!({})).await;
            wait_random(&lab).await;
            lab.nodes.cordon(0, true).await;
            lab.wait_serving(1, seconds(15)).await;
            assert_eq!(lab.labeled.max_nodes(WEB), 1, "never two nodes");
            lab.labeled.time_without_node(WEB)
        });
        times.push(none);
    }
    println!("time without any label in a planned move: {times:?}");
    assert!(times.iter().all(|none| *none < seconds(1)), "{times:?}");
}

#[test]
fn stripping_before_the_assign_is_detected() {
    on_box(3, |lab| async move {
        let replica = lab.start_settled(3, &json!({})).await;
        drop(replica);
        lab.nodes.remove_gateway_label(0).await;
        sleep(seconds(7)).await;
        lab.nodes.label(1, aplomb_api::egress::labels::GATEWAY, Some(WEB)).await;
        assert_eq!(lab.labeled.time_without_node(WEB), seconds(7));
        lab.nodes.label(0, aplomb_api::egress::labels::GATEWAY, Some(WEB)).await;
        assert_eq!(lab.labeled.max_nodes(WEB), 2);
    });
}

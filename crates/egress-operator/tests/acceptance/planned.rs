//! Promise: a gateway that works keeps its label until another node is known to hold the floating IP,
//! however often the provider refuses. Somebody who sees every version of every Node holds it to that.

use std::time::Duration;

use aplomb_fake_services::hcloud::Fault;
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, WEB, floating_ip, on_box, seconds};
use crate::moves::{assigns, some_time};
use crate::nodes;

/// How a provider refuses every Assign.
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

/// Five minutes of refusals, then none. How long nobody had the label, and how many Assigns were sent.
async fn refused(lab: Lab, fault: Fault) -> (Duration, usize) {
    let throttled = fault.code.as_deref() == Some("rate_limit_exceeded");
    let _replica = lab.settled(3, &json!({})).await;
    some_time(&lab).await;
    let (before, calls) = (assigns(&lab), lab.hetzner.requests().len());
    lab.hetzner.fault(fault);
    lab.nodes.cordon(0, true).await;
    sleep(seconds(300)).await;
    let moments = lab.labelled.moments(WEB);
    assert_eq!(moments.len(), 1, "the label was touched: {moments:?}");
    assert_eq!(lab.labelled.only(WEB), Some(nodes::name(0)));
    assert_eq!(lab.hetzner.holder(floating_ip(0)), Some(nodes::server(0)));
    let tried = assigns(&lab) - before;
    let calls = lab.hetzner.requests().len() - calls;
    assert!(
        throttled || calls < 200,
        "{calls} calls in 5 min are paid by all who share the token"
    );
    lab.hetzner.clear_faults(None);
    lab.serves(1, seconds(15)).await;
    assert_eq!(lab.labelled.most(WEB), 1, "never two");
    (lab.labelled.none(WEB), tried)
}

#[test]
fn a_planned_move_that_is_refused_costs_the_old_gateway_nothing() {
    for fault in refusals() {
        let how = (fault.code.clone(), fault.status);
        let (none, tried) = on_box(3, move |lab| refused(lab, fault));
        println!(
            "Assign refused with {how:?} for 5 min: {tried} tries, then no label for {none:?}"
        );
        // Every 5 s at the least, and never more than the tokens that flow in.
        assert!((50..=300).contains(&tried), "{tried}");
        assert!(none < seconds(1), "{none:?}");
    }
}

#[test]
fn on_a_successful_move_two_never_have_the_label() {
    let mut times = Vec::new();
    for seed in 0..8 {
        let none = on_box(seed, |lab| async move {
            let _replica = lab.settled(3, &json!({})).await;
            some_time(&lab).await;
            lab.nodes.cordon(0, true).await;
            lab.serves(1, seconds(15)).await;
            assert_eq!(lab.labelled.most(WEB), 1, "never two");
            lab.labelled.none(WEB)
        });
        times.push(none);
    }
    println!("time without any label in a planned move: {times:?}");
    assert!(times.iter().all(|none| *none < seconds(1)), "{times:?}");
}

#[test]
fn whoever_strips_before_the_assign_is_seen() {
    on_box(3, |lab| async move {
        let replica = lab.settled(3, &json!({})).await;
        drop(replica);
        lab.nodes.no_gateway(0).await;
        sleep(seconds(7)).await;
        lab.nodes
            .label(1, aplomb_api::egress::labels::GATEWAY, Some(WEB))
            .await;
        assert_eq!(lab.labelled.none(WEB), seconds(7));
        lab.nodes
            .label(0, aplomb_api::egress::labels::GATEWAY, Some(WEB))
            .await;
        assert_eq!(lab.labelled.most(WEB), 2);
    });
}

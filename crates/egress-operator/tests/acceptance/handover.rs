//! Guarantee: a change of leader does not affect a grace period, and a leader that cannot reach a
//! node which the standby reaches does not move away from it.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::{Lab, assert_throughout, on_box, seconds};
use crate::moves::{probing, wait_random};
use crate::nodes;
use crate::operator::Replica;

/// How long a grace period of a minute takes if the leader is lost in the middle of it.
async fn grace_across_leaders(lab: Lab, survives: bool) -> Duration {
    let spec = json!({ "graces": { "unhealthy": "60s", "surviveRestart": survives } });
    let first = lab.start_settled(3, &spec).await;
    let _second = Replica::start(&lab, "second");
    sleep(seconds(30)).await;
    let began = Instant::now();
    lab.nodes.set_ready(0, "False").await;
    sleep(seconds(30)).await;
    drop(first);
    lab.wait_serving(1, seconds(180)).await;
    began.elapsed()
}

#[test]
fn a_grace_goes_on_under_the_next_leader() {
    let took = on_box(1, |lab| grace_across_leaders(lab, true));
    println!("grace period of 60 s, leader lost after 30 s: moved after {took:.1?}");
    assert!((seconds(60)..=seconds(62)).contains(&took), "{took:?}");
    let off = on_box(1, |lab| grace_across_leaders(lab, false));
    println!("the same if grace periods do not survive: {off:.1?}");
    assert!((seconds(95)..=seconds(115)).contains(&off), "{off:?}");
}

#[test]
fn a_node_that_recovered_without_a_leader_is_not_left() {
    on_box(1, |lab| async move {
        let first = lab.start_settled(3, &json!({ "graces": { "unhealthy": "40s" } })).await;
        let _second = Replica::start(&lab, "second");
        sleep(seconds(30)).await;
        lab.nodes.set_ready(0, "False").await;
        sleep(seconds(30)).await;
        drop(first);
        lab.nodes.set_ready(0, "True").await;
        sleep(seconds(120)).await;
        assert!(lab.is_serving(0), "a move needs a fresh failing signal");
    });
}

#[test]
fn a_leader_that_is_cut_off_checks_the_standby_reports_before_it_moves() {
    on_box(1, |lab| async move {
        let _first = lab.start_settled(3, &probing()).await;
        let _second = Replica::start(&lab, "second");
        sleep(seconds(60)).await;
        lab.reach.block_from("first", nodes::address(0));
        assert_throughout(seconds(300), "the gateway remains", || lab.is_serving(0)).await;
        // When the standby cannot reach it either, it counts as dead.
        let began = Instant::now();
        lab.reach.set_silent(nodes::address(0), true);
        lab.wait_serving(1, seconds(60)).await;
        let took = began.elapsed();
        println!("unreachable for both replicas: moved after {took:.1?}");
        assert!(took < seconds(30), "{took:?}");
    });
    let alone = on_box(1, |lab| async move {
        let _first = lab.start_settled(3, &probing()).await;
        sleep(seconds(60)).await;
        lab.reach.block_from("first", nodes::address(0));
        lab.wait_serving(1, seconds(60)).await
    });
    assert!(alone < seconds(30), "without other replicas it moves: {alone:?}");
}

#[test]
fn a_gateway_that_dies_with_the_leader_on_it_is_left_in_half_a_minute() {
    let times = (0..6).map(|seed| {
        on_box(seed, |lab| async move {
            let first = lab.start_settled(3, &probing()).await;
            let _second = Replica::start(&lab, "second");
            wait_random(&lab).await;
            lab.kill(0);
            drop(first);
            lab.wait_serving(1, seconds(60)).await
        })
    });
    let worst = times.max().unwrap_or_default();
    println!("gateway and leader die together: serves again after {worst:.1?} at worst");
    assert!(worst < seconds(30), "{worst:?}");
}

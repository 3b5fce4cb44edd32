//! Guarantee: calls that a leader sent before it was frozen, and what it does after it resumes, are
//! corrected by the current leader, and never repeated.

use serde_json::json;
use tokio::time::sleep;

use crate::crashes::End;
use crate::lab::{Lab, floating_ip, on_box, seconds, until};
use crate::nodes;
use crate::operator::Replica;

/// How many Assigns a replica has sent.
fn count_assigns(lab: &Lab, replica: &str) -> usize {
    let by = format!(" {replica} effect ");
    let trace = lab.cluster.trace();
    trace.count(|line| line.contains(&by) && line.ends_with("/actions/assign"))
}

/// The first leads and is frozen with an Assign in flight; the second takes over.
async fn freeze_leader(lab: &Lab) -> (Replica, Replica) {
    let spec = json!({ "respectForeignMoves": "20s", "dwell": "10s" });
    let first = lab.start_settled(3, &spec).await;
    let second = Replica::start(lab, "second");
    sleep(seconds(30)).await;
    lab.valve.hold("first", "/actions/assign");
    lab.nodes.cordon(0, true).await;
    lab.valve.wait_reached().await;
    first.component.freeze();
    (first, second)
}

#[test]
fn a_late_assign_of_a_frozen_leader_is_undone_and_not_repeated() {
    on_box(6, |lab| async move {
        let (first, _second) = freeze_leader(&lab).await;
        lab.nodes.cordon(1, true).await;
        lab.wait_serving(2, seconds(30)).await;
        lab.valve.open();
        let late = || lab.hetzner.holder(floating_ip(0)) == Some(nodes::server(1));
        until(seconds(5), "the late Assign arrives", late).await;
        let before = count_assigns(&lab, "first");
        first.component.thaw();
        let took = lab.wait_serving(2, seconds(60)).await;
        println!("late Assign of a frozen leader: undone after {took:.1?}");
        assert!(
            took <= seconds(60),
            "a resync and the time foreign moves are respected: {took:?}"
        );
        sleep(seconds(300)).await;
        assert_eq!(End::from_lab(&lab), End::expected_on(2));
        assert_eq!(count_assigns(&lab, "first"), before, "it has stood down");
        assert_eq!(lab.labeled.max_nodes("web"), 1, "never two nodes");
    });
}

#[test]
fn a_late_assign_to_the_same_node_changes_nothing() {
    on_box(6, |lab| async move {
        let (first, _second) = freeze_leader(&lab).await;
        lab.wait_serving(1, seconds(30)).await;
        lab.valve.open();
        first.component.thaw();
        sleep(seconds(300)).await;
        assert_eq!(End::from_lab(&lab), End::expected_on(1));
    });
}

#[test]
fn however_long_a_leader_is_frozen_the_holder_matches_status() {
    for time in [1, 5, 9, 11, 14, 16, 20, 40, 90] {
        on_box(time, move |lab| async move {
            let (first, _second) = freeze_leader(&lab).await;
            lab.nodes.cordon(1, true).await;
            sleep(seconds(time)).await;
            lab.valve.open();
            first.component.thaw();
            sleep(seconds(180)).await;
            assert_eq!(End::from_lab(&lab), End::expected_on(2), "frozen for {time} s");
            assert_eq!(lab.labeled.max_nodes("web"), 1, "frozen for {time} s");
        });
    }
}

#[test]
fn a_leader_that_sleeps_without_anything_on_the_wire_writes_nothing_when_it_wakes() {
    on_box(6, |lab| async move {
        let first = lab.start_settled(3, &json!({})).await;
        let _second = Replica::start(&lab, "second");
        sleep(seconds(30)).await;
        first.component.freeze();
        lab.nodes.cordon(0, true).await;
        lab.wait_serving(1, seconds(30)).await;
        let before = count_assigns(&lab, "first");
        lab.nodes.cordon(0, false).await;
        first.component.thaw();
        sleep(seconds(180)).await;
        assert_eq!(count_assigns(&lab, "first"), before);
        assert_eq!(End::from_lab(&lab), End::expected_on(1));
    });
}

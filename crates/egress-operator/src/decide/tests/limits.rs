//! Dwell time, move limit, pins and the leader's term.

use aplomb_api::DurationString;
use aplomb_api::egress::{MoveCause, PinSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::model::{Model, SECOND};
use crate::egress::{LabelState, NodeReady};

fn pin(model: &mut Model, node: &str) {
    model.spec.pin = Some(PinSpec {
        node: node.to_owned(),
        until: None,
    });
}

#[test]
fn a_pinned_node_is_preferred_while_it_can_serve() {
    let mut model = Model::new_settled(3);
    pin(&mut model, "c");
    model.advance(5 * SECOND);
    model.assert_gateway("c", 3);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::Pinned);
    model.node("c").terminating = true;
    model.advance(5 * SECOND);
    model.assert_gateway("a", 1);
}

#[test]
fn a_pin_that_is_over_moves_nothing() {
    let mut model = Model::new_settled(3);
    pin(&mut model, "c");
    let over = Time(model.now() - SECOND);
    if let Some(pin) = &mut model.spec.pin {
        pin.until = Some(over);
    }
    model.advance(100 * SECOND);
    model.assert_untouched();
}

#[test]
fn a_pin_to_a_node_that_cannot_serve_moves_nothing() {
    let mut model = Model::new_settled(3);
    pin(&mut model, "c");
    model.node("c").prepared = false;
    model.advance(100 * SECOND);
    model.assert_untouched();
}

#[test]
fn a_pin_waits_for_the_dwell_but_not_with_a_gateway_that_is_out() {
    let mut model = Model::new_settled(3);
    pin(&mut model, "c");
    model.advance(5 * SECOND);
    pin(&mut model, "b");
    model.advance(50 * SECOND);
    model.assert_gateway("c", 3);
    model.advance(10 * SECOND);
    model.assert_gateway("b", 2);
    pin(&mut model, "a");
    model.node("b").cordoned = true;
    model.advance(5 * SECOND);
    model.assert_gateway("a", 1);
}

#[test]
fn a_pin_waits_for_the_end_of_a_grace() {
    let mut model = Model::new_settled(3);
    pin(&mut model, "c");
    model.node("a").ready = NodeReady::False;
    model.advance(85 * SECOND);
    model.assert_untouched();
    model.advance(8 * SECOND);
    model.assert_gateway("c", 3);
}

/// A gateway that fails repeatedly, each time on the node to which it was just moved.
fn flap_ready(model: &mut Model, ready: NodeReady) -> usize {
    model.spec.graces.unhealthy = Some(DurationString::default());
    for _ in 0..20 {
        let active = model.status.active_node.clone().expect("a gateway");
        for node in &mut model.nodes {
            node.ready = if node.name == active { ready } else { NodeReady::True };
        }
        model.advance(60 * SECOND);
    }
    model.assigns()
}

#[test]
fn a_flapping_node_cannot_move_it_more_often_than_is_allowed() {
    let mut model = Model::new_settled(2);
    assert_eq!(flap_ready(&mut model, NodeReady::False), 6);
    assert_eq!(model.available_reason(), "False GatewayUnhealthy");
    assert!(
        model
            .condition_message("Available")
            .contains("maxMovesPerHour (6) reached")
    );
    model.advance(3_600 * SECOND);
    assert!(model.assigns() > 6, "an hour later it may move again");
}

#[test]
fn no_cap_keeps_it_on_a_dead_node() {
    let mut model = Model::new_settled(2);
    assert!(flap_ready(&mut model, NodeReady::Unknown) > 15);
}

#[test]
fn a_new_leader_writes_its_term_once() {
    let mut model = Model::new_settled(2);
    model.term = 4;
    model.advance(300 * SECOND);
    assert_eq!(model.provider.term, 4);
    assert_eq!(model.step_log(), ["claim"]);
    model.restart();
    model.advance(300 * SECOND);
    assert_eq!((model.provider.term, model.step_log().len()), (5, 2));
}

#[test]
fn the_term_waits_for_a_move_that_is_needed() {
    let mut model = Model::new_settled(2);
    model.term = 4;
    model.restart();
    model.node("a").terminating = true;
    model.advance(10 * SECOND);
    assert_eq!(model.step_log(), ["assign b", "strip a", "label b", "claim"]);
}

#[test]
fn a_node_that_is_the_gateway_of_another_is_not_taken() {
    let mut model = Model::new_settled(3);
    model.node("b").conflicting_label = Some("mail".to_owned());
    model.node("a").terminating = true;
    model.advance(5 * SECOND);
    model.assert_gateway("c", 3);
}

#[test]
fn labels_that_are_half_there_are_completed() {
    let mut model = Model::new_settled(2);
    model.node("a").labels = LabelState::Some;
    model.run();
    assert_eq!(model.step_log(), ["label a"]);
}

/// Terms restart at 1 while the floating IP has the last one.
fn delete_lease(model: &mut Model) {
    model.restart();
    (model.term, model.provider.term) = (3, 9);
    model.advance(5 * SECOND);
    assert_eq!(model.available_reason(), "Unknown NewerLeader");
}

#[test]
fn after_a_lease_was_deleted_the_term_comes_before_a_move() {
    let mut model = Model::new_settled(2);
    delete_lease(&mut model);
    model.node("a").terminating = true;
    model.advance(40 * SECOND);
    assert_eq!(model.step_log(), Vec::<String>::new());
    model.advance(25 * SECOND);
    assert_eq!(model.step_log(), ["claim", "assign b", "strip a", "label b"]);
}

#[test]
fn a_clock_that_was_set_back_keeps_nothing_from_moving() {
    let mut model = Model::new_settled(3);
    pin(&mut model, "c");
    model.advance(5 * SECOND);
    model.status.recent_moves = vec![Time(model.now()); 6];
    pin(&mut model, "b");
    model.advance(SECOND);
    model.set_back = 7_200 * SECOND;
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    model.spec.pin = None;
    model.node("b").ready = NodeReady::False;
    model.advance(100 * SECOND);
    model.assert_gateway("a", 1);
}

#[test]
fn a_dwell_a_little_ahead_of_the_clock_ends_on_time() {
    let mut model = Model::new_settled(3);
    pin(&mut model, "c");
    model.advance(5 * SECOND);
    model.set_back = 30 * SECOND;
    pin(&mut model, "b");
    let first = model.run().status.next_check;
    model.advance(50 * SECOND);
    assert_eq!(model.run().status.next_check, first);
    model.advance(60 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_clock_that_was_set_back_puts_off_no_deadline() {
    let mut model = Model::new_settled(2);
    model.node("a").terminating = true;
    model.provider.assign_time = None;
    model.advance(5 * SECOND);
    model.set_back = 7_200 * SECOND;
    model.advance(65 * SECOND);
    assert!(model.status.moving.as_ref().expect("a move").overdue);
}

#[test]
fn a_clock_that_was_set_back_ends_standing_down_anyway() {
    let mut model = Model::new_settled(2);
    delete_lease(&mut model);
    model.set_back = 7_200 * SECOND;
    model.advance(100 * SECOND);
    assert_eq!(model.provider.term, 3);
}

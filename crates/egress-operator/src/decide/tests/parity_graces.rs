//! How long a gateway with a problem keeps the floating IP, to the second.

use std::time::Duration;

use aplomb_api::DurationString;
use aplomb_api::egress::MoveCause;

use super::model::{Model, SECOND};
use super::parity::{set_probe_answer, with_probing};
use crate::egress::{NodeProbeResult, NodeReady};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn not_ready_alone_moves_nothing_where_the_probe_is_answered() {
    let mut model = with_probing(Model::new_settled(2));
    model.node("a").ready = NodeReady::Unknown;
    model.advance(600 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.step_log(), [""; 0]);
}

#[test]
fn not_ready_moves_it_where_ready_is_the_signal() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::False;
    model.advance(89 * SECOND);
    assert_eq!(model.step_log(), [""; 0]);
    model.advance(3 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn bursts_of_events_do_not_shorten_a_grace() {
    let mut model = with_probing(Model::new_settled(2));
    set_probe_answer(model.node("a"), false);
    for _ in 0..50 {
        model.run();
        model.uptime += 10 * MILLI;
    }
    model.advance(89 * SECOND);
    assert_eq!(model.step_log(), [""; 0]);
    assert_eq!(model.available_reason(), "False GatewayUnhealthy");
    model.advance(3 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_grace_ends_at_its_second() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::False;
    let start = model.uptime;
    model.run();
    model.uptime = start + 90 * SECOND - MILLI;
    model.run();
    assert_eq!(model.assigns(), 0);
    model.uptime = start + 90 * SECOND;
    model.run();
    assert_eq!(model.assigns(), 1);
}

#[test]
fn an_assignment_by_another_client_is_not_undone_in_a_grace() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::False;
    model.run();
    model.provider.server = Some(77);
    model.advance(80 * SECOND);
    assert_eq!(model.provider.server, Some(77));
    assert_eq!(model.log, []);
}

#[test]
fn a_grace_restarts_after_the_gateway_was_healthy() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::False;
    model.advance(80 * SECOND);
    model.node("a").ready = NodeReady::True;
    model.run();
    assert!(model.status.suspects.is_empty());
    model.node("a").ready = NodeReady::False;
    model.advance(80 * SECOND);
    model.assert_untouched();
    model.advance(15 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn loss_of_preparation_has_a_longer_grace() {
    let mut model = Model::new_settled(2);
    model.node("a").prepared = false;
    model.advance(299 * SECOND);
    model.assert_untouched();
    assert_eq!(model.available_reason(), "False GatewayUnprepared");
    model.advance(3 * SECOND);
    model.assert_gateway("b", 2);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::NodeUnprepared);
}

#[test]
fn being_unhealthy_and_unprepared_are_timed_apart() {
    let mut model = Model::new_settled(2);
    model.node("a").prepared = false;
    model.advance(200 * SECOND);
    model.node("a").ready = NodeReady::False;
    model.advance(80 * SECOND);
    model.node("a").ready = NodeReady::True;
    model.advance(200 * SECOND);
    model.assert_untouched();
}

#[test]
fn so_many_failures_in_a_row_are_the_whole_grace() {
    let mut model = with_probing(Model::new_settled(2));
    model.spec.health.probe.failures = Some(3);
    for failures in 1..3 {
        set_probe_failures(&mut model, failures);
        model.advance(5 * SECOND);
        model.assert_untouched();
    }
    set_probe_failures(&mut model, 3);
    model.advance(3 * SECOND);
    model.assert_gateway("b", 2);
}

fn set_probe_failures(model: &mut Model, failures: u32) {
    model.node("a").probe_result = Some(NodeProbeResult {
        failures,
        disputed: false,
    });
}

#[test]
fn failures_and_a_grace_must_both_be_over() {
    let mut model = with_probing(Model::new_settled(2));
    model.spec.health.probe.failures = Some(3);
    model.spec.graces.unhealthy = Some(DurationString::from_secs(20));
    set_probe_failures(&mut model, 3);
    model.advance(19 * SECOND);
    model.assert_untouched();
    set_probe_failures(&mut model, 1);
    model.advance(19 * SECOND);
    model.assert_untouched();
    set_probe_failures(&mut model, 3);
    model.advance(3 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_zero_grace_ends_at_once() {
    let mut model = Model::new_settled(2);
    model.spec.graces.unhealthy = Some(DurationString::default());
    model.node("a").ready = NodeReady::False;
    model.advance(3 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_new_leader_goes_on_with_a_grace() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::False;
    model.advance(60 * SECOND);
    model.restart();
    model.advance(29 * SECOND);
    model.assert_untouched();
    model.advance(4 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_new_leader_restarts_a_grace_where_the_spec_requires_it() {
    let mut model = Model::new_settled(2);
    model.spec.graces.survive_restart = false;
    model.node("a").ready = NodeReady::False;
    model.advance(60 * SECOND);
    model.restart();
    model.advance(89 * SECOND);
    model.assert_untouched();
    model.advance(4 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_new_leader_needs_a_failing_signal_of_its_own() {
    let mut model = with_probing(Model::new_settled(2));
    set_probe_answer(model.node("a"), false);
    model.advance(60 * SECOND);
    model.restart();
    model.node("a").probe_result = None;
    model.advance(120 * SECOND);
    model.assert_untouched();
}

#[test]
fn a_clock_that_is_set_back_does_not_stretch_a_grace() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::False;
    model.run();
    model.status.suspects[0].since.0 = model.now() + 86_400 * SECOND;
    model.advance(93 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn what_another_replica_can_reach_is_not_given_up() {
    let mut model = with_probing(Model::new_settled(2));
    model.node("a").probe_result = Some(NodeProbeResult {
        failures: 9,
        disputed: true,
    });
    model.advance(600 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.step_log(), [""; 0]);
}

impl Model {
    /// Asserts that nothing was written, neither to the provider nor to a node.
    pub(super) fn assert_untouched(&self) {
        assert_eq!(self.step_log(), [""; 0]);
    }
}

//! Behavior that users of similar operators rely on: which node is elected, what blocks a move,
//! what is left alone.

use aplomb_api::egress::{HealthSignal, MoveCause};

use super::model::{Model, SECOND, node};
use crate::decide::Step;
use crate::decide::assessment::allowlist_refusal;
use crate::egress::{LabelState, NodeProbeResult, NodeReady};

pub(super) fn with_probing(mut model: Model) -> Model {
    model.spec.health.signal = HealthSignal::Probe;
    for node in &mut model.nodes {
        set_probe_answer(node, true);
    }
    model
}

pub(super) fn set_probe_answer(node: &mut crate::egress::CandidateNode, yes: bool) {
    node.probe_result = Some(NodeProbeResult {
        failures: u32::from(!yes),
        disputed: false,
    });
}

// Election.

#[test]
fn a_labeled_node_that_never_was_a_candidate_is_adopted() {
    let mut model = Model::new_unsettled(2);
    model.nodes.push(node("old", 9));
    model.node("old").candidate = false;
    model.node("old").labels = LabelState::All;
    model.provider.server = Some(9);
    model.advance(120 * SECOND);
    model.assert_gateway("old", 9);
    assert_eq!(model.writes_to_provider() + model.label_changes(), 0);
}

#[test]
fn the_gateway_stays_although_a_lower_name_could_serve() {
    let mut model = Model::new_unsettled(3);
    model.node("c").labels = LabelState::All;
    model.provider.server = Some(3);
    model.advance(120 * SECOND);
    model.assert_gateway("c", 3);
    assert_eq!(model.step_log(), [""; 0]);
}

#[test]
fn a_candidate_takes_over_when_the_gateway_cannot_stay() {
    let mut model = Model::new_settled(2);
    model.node("a").terminating = true;
    model.advance(10 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn the_lowest_name_is_elected_first() {
    let mut model = Model::new_unsettled(3);
    model.nodes.reverse();
    model.advance(10 * SECOND);
    model.assert_gateway("a", 1);
}

#[test]
fn no_node_is_elected_when_none_can_serve() {
    let mut model = Model::new_unsettled(0);
    model.advance(60 * SECOND);
    assert_eq!(model.available_reason(), "False NoCandidate");
    assert_eq!(model.writes_to_provider(), 0);
}

// Reconcile.

#[test]
fn floating_ip_and_label_leave_a_dead_gateway() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::Unknown;
    model.advance(100 * SECOND);
    model.assert_gateway("b", 2);
    assert_eq!(model.assigns(), 1);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::NodeUnhealthy);
}

#[test]
fn an_unprepared_candidate_with_a_lower_name_is_skipped() {
    let mut model = Model::new_settled(3);
    model.node("b").prepared = false;
    model.node("a").terminating = true;
    model.advance(10 * SECOND);
    model.assert_gateway("c", 3);
}

#[test]
fn all_stays_as_it_is_when_no_candidate_is_prepared() {
    let mut model = Model::new_settled(2);
    model.node("b").prepared = false;
    model.node("a").terminating = true;
    model.advance(400 * SECOND);
    assert_eq!(model.provider.server, Some(1));
    assert_eq!(model.labeled_nodes(), ["a"]);
    assert_eq!(model.writes_to_provider() + model.label_changes(), 0);
    assert_eq!(model.available_reason(), "False NoCandidate");
}

#[test]
fn an_address_is_allowed_by_the_networks_it_is_in() {
    let allowed = |networks: &[&str], address: &str| {
        let networks: Vec<String> = networks.iter().map(|n| (*n).to_owned()).collect();
        allowlist_refusal(&networks, address.parse().expect("an address")).is_none()
    };
    assert!(allowed(&[], "192.0.2.1"));
    assert!(allowed(&["192.0.2.1/32"], "192.0.2.1"));
    assert!(allowed(&["198.51.100.0/24", "192.0.2.0/29"], "192.0.2.7"));
    assert!(!allowed(&["192.0.2.0/29"], "192.0.2.8"));
    assert!(allowed(&["2001:db8:1::/64"], "2001:db8:1::1"));
    assert!(!allowed(&["2001:db8:1::/64"], "2001:db8:2::1"));
    assert!(!allowed(&["0.0.0.0/0"], "2001:db8::1"));
    assert!(allowed(&["::/0"], "2001:db8::1"));
    assert!(!allowed(&["192.0.2.0/33"], "192.0.2.1"));
    assert!(!allowed(&["192.0.2.0"], "192.0.2.0"));
}

#[test]
fn an_address_outside_the_allowlist_is_neither_assigned_nor_labeled() {
    let mut model = Model::new_unsettled(2);
    model.spec.allowlist = vec!["198.51.100.0/24".to_owned()];
    model.advance(120 * SECOND);
    assert_eq!(model.writes_to_provider() + model.label_changes(), 0);
    assert_eq!(model.available_reason(), "False AddressNotAllowed");
    assert_eq!(model.condition_reason("Ready"), "False AddressNotAllowed");
}

#[test]
fn the_label_of_a_dead_node_that_is_not_a_candidate_goes_when_it_is_replaced() {
    let mut model = Model::new_unsettled(1);
    model.nodes.push(node("old", 9));
    model.node("old").candidate = false;
    model.node("old").labels = LabelState::All;
    model.provider.server = Some(9);
    model.run();
    model.node("old").ready = NodeReady::Unknown;
    model.advance(100 * SECOND);
    model.assert_gateway("a", 1);
}

#[test]
fn nothing_is_written_while_the_gateway_is_well() {
    let mut model = Model::new_settled(3);
    model.advance(600 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.step_log(), [""; 0]);
}

#[test]
fn only_a_ready_schedulable_candidate_is_promoted() {
    let mut model = Model::new_settled(5);
    model.node("b").ready = NodeReady::False;
    model.node("c").cordoned = true;
    model.node("d").terminating = true;
    model.node("a").terminating = true;
    model.advance(10 * SECOND);
    model.assert_gateway("e", 5);
}

#[test]
fn a_gateway_that_is_being_deleted_goes_at_once() {
    let mut model = Model::new_settled(2);
    model.node("a").terminating = true;
    let start = model.uptime;
    model.run();
    let assigned = model.first_time(|step| matches!(step, Step::Assign { .. }));
    assert_eq!(assigned, Some(start));
}

#[test]
fn duplicate_labels_go_without_a_move() {
    let mut model = Model::new_settled(3);
    model.node("b").labels = LabelState::All;
    model.node("c").labels = LabelState::All;
    model.advance(60 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.step_log(), ["strip b", "strip c"]);
}

// An improvement on the earlier order: the old label stays until the new holder is confirmed.

#[test]
fn the_old_label_stays_until_the_new_holder_is_confirmed() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.provider.assign_time = Some(5 * SECOND);
    model.advance(4 * SECOND);
    assert_eq!(model.labeled_nodes(), ["a"]);
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    assert_eq!(model.step_log(), ["assign b", "strip a", "label b"]);
    let read = |step: &Step| matches!(step, Step::Read { .. });
    let strip = |step: &Step| matches!(step, Step::Strip { .. });
    assert!(model.first_time(read) < model.first_time(strip));
}

#[test]
fn the_label_stays_on_the_holder_when_the_provider_fails() {
    let mut model = Model::new_settled(2);
    model.provider.failing = 2;
    model.node("a").cordoned = true;
    model.advance(2 * SECOND);
    assert_eq!((model.provider.server, model.labeled_nodes()), (Some(1), vec!["a"]));
    model.advance(20 * SECOND);
    model.assert_gateway("b", 2);
    assert_eq!(model.assigns(), 3);
}

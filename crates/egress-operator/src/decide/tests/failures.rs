//! Failures F1 to F15 known from similar operators: this one has none of them.

use super::model::{Model, SECOND};
use super::parity::{set_probe_answer, with_probing};
use super::provider::Mood;
use crate::decide::Step;
use crate::egress::{LabelState, NodeProbeResult, NodeReady, ObservedFloatingIp, ProviderTrouble};

#[test]
fn f1_a_refused_assign_leaves_the_label_where_it_is() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.provider.mood = Mood::Failing(ProviderTrouble::Throttled);
    for _ in 0..200 {
        let plan = model.run();
        assert_eq!(model.labeled_nodes(), ["a"]);
        model.uptime += plan.requeue_after;
    }
    model.provider.mood = Mood::Healthy;
    model.advance(4 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn f2_a_planned_move_waits_for_the_provider_with_the_old_gateway_at_work() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Locked);
    model.advance(600 * SECOND);
    assert_eq!((model.provider.server, model.labeled_nodes()), (Some(1), vec!["a"]));
    assert_eq!(model.label_changes(), 0);
}

#[test]
fn f3_a_refused_move_is_tried_every_second_or_so() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Throttled);
    model.advance(100 * SECOND);
    assert!((78..=100).contains(&model.assigns()), "{}", model.assigns());
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Unreachable("down".to_owned()));
    let before = model.assigns();
    model.advance(600 * SECOND);
    let tried = model.assigns() - before;
    assert!(tried >= 600 / 6 / 2, "at most 5 s and a read apart: {tried}");
}

#[test]
fn f4_a_refused_read_costs_one_call_a_resync() {
    let mut model = Model::new_settled(2);
    model.provider.mood = Mood::Failing(ProviderTrouble::Throttled);
    model.advance(3_600 * SECOND);
    assert!(model.reads() <= 120, "{}", model.reads());
    assert_eq!(model.writes_to_provider(), 0);
}

#[test]
fn f5_a_lost_label_comes_back_to_the_holder() {
    let mut model = Model::new_settled(3);
    model.node("a").labels = LabelState::None;
    model.run();
    model.assert_gateway("a", 1);
    let mut model = Model::new_unsettled(3);
    model.provider.server = Some(3);
    model.run();
    model.assert_gateway("c", 3);
    assert_eq!(model.step_log(), ["label c"]);
}

#[test]
fn f6_of_two_labeled_nodes_the_holder_stays() {
    let mut model = Model::new_unsettled(3);
    model.provider.server = Some(3);
    model.node("b").labels = LabelState::All;
    model.node("c").labels = LabelState::All;
    model.run();
    model.assert_gateway("c", 3);
    assert_eq!(model.step_log(), ["strip b"]);
}

#[test]
fn f7_a_foreign_provider_id_is_skipped_and_reported() {
    let mut model = Model::new_unsettled(2);
    model.node("a").server = None;
    model.advance(10 * SECOND);
    model.assert_gateway("b", 2);
    let told = |note: &String| note.starts_with("NodeWithoutServer: skipping a");
    assert!(model.notes.iter().any(told), "{:?}", model.notes);
}

#[test]
fn f8_the_label_stays_while_the_floating_ip_comes_back() {
    let mut model = Model::new_settled(2);
    model.provider.server = None;
    model.advance(60 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.step_log(), ["assign a"]);
}

#[test]
fn f9_a_provider_that_fails_is_not_available() {
    let mut model = Model::new_settled(2);
    model.provider.mood = Mood::Failing(ProviderTrouble::Unreachable("503".to_owned()));
    model.advance(34 * SECOND);
    assert_eq!(model.available_reason(), "False ProviderUnreachable");
    model.provider.mood = Mood::Healthy;
    model.advance(34 * SECOND);
    assert_eq!(model.available_reason(), "True Serving");
}

#[test]
fn f10_a_gateway_that_is_merely_cordoned_still_serves() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.node("b").cordoned = true;
    model.advance(60 * SECOND);
    assert_eq!(model.available_reason(), "True Serving");
    assert_eq!(model.condition_reason("Redundant"), "False NoCandidate");
    let told = |note: &String| note.starts_with("NoCandidate");
    assert!(model.notes.iter().any(told), "{:?}", model.notes);
    model.assert_untouched();
}

#[test]
fn f10_a_cordoned_gateway_is_named_by_a_leader_that_never_saw_another() {
    let mut model = Model::new_unsettled(1);
    model.provider.server = Some(1);
    model.node("a").labels = LabelState::All;
    model.node("a").cordoned = true;
    model.run();
    assert_eq!(model.available_reason(), "True Serving");
    assert_eq!(model.status.active_node.as_deref(), Some("a"));
}

#[test]
fn f11_a_leader_that_meets_a_newer_term_writes_nothing() {
    let mut model = Model::new_settled(2);
    model.term = 3;
    model.provider.term = 4;
    model.node("a").cordoned = true;
    model.restart();
    model.term = 3;
    model.advance(50 * SECOND);
    assert_eq!(model.available_reason(), "Unknown NewerLeader");
    model.assert_untouched();
}

#[test]
fn f11_a_leader_that_still_leads_after_a_minute_goes_on() {
    let mut model = Model::new_settled(2);
    model.term = 3;
    model.provider.term = 9;
    model.advance(200 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.provider.term, 3);
}

#[test]
fn f12_a_move_by_hand_is_respected_and_then_taken_back() {
    let mut model = Model::new_settled(2);
    model.provider.server = Some(77);
    model.advance(40 * SECOND);
    assert_eq!(model.available_reason(), "False HeldElsewhere");
    model.advance(250 * SECOND);
    assert_eq!(model.provider.server, Some(77));
    model.assert_untouched();
    model.advance(60 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.status.elsewhere_since, None);
}

#[test]
fn f13_a_blocked_floating_ip_is_not_available() {
    let mut model = Model::new_settled(2);
    model.provider.blocked = true;
    model.advance(34 * SECOND);
    assert_eq!(model.available_reason(), "False FloatingIPBlocked");
}

#[test]
fn f13_a_server_that_cannot_take_it_is_passed_over() {
    let mut model = Model::new_settled(3);
    model.provider.refusing_servers = vec![2];
    model.node("a").cordoned = true;
    model.advance(30 * SECOND);
    model.assert_gateway("c", 3);
}

#[test]
fn f14_a_replica_that_is_cut_off_keeps_the_gateway() {
    let mut model = with_probing(Model::new_settled(2));
    for node in &mut model.nodes {
        node.probe_result = Some(NodeProbeResult {
            failures: 20,
            disputed: true,
        });
    }
    model.advance(600 * SECOND);
    model.assert_untouched();
}

#[test]
fn f15_the_dead_gateways_cilium_label_goes_too() {
    let mut model = with_probing(Model::new_settled(2));
    model.node("a").cilium = Some(LabelState::All);
    model.node("b").cilium = Some(LabelState::None);
    set_probe_answer(model.node("a"), false);
    model.node("a").ready = NodeReady::Unknown;
    model.advance(100 * SECOND);
    model.assert_gateway("b", 2);
    let order = ["assign b", "strip a", "strip a (cilium)", "label b", "label b (cilium)"];
    assert_eq!(model.step_log(), order);
    assert_eq!(model.condition_reason("LabelsConsistent"), "True Consistent");
}

#[test]
fn a_stale_cilium_label_of_another_node_goes_although_nothing_moves() {
    let mut model = Model::new_settled(2);
    model.node("a").cilium = Some(LabelState::All);
    model.node("b").cilium = Some(LabelState::All);
    model.run();
    assert_eq!(model.step_log(), ["strip b (cilium)"]);
    assert_eq!(model.condition_reason("LabelsConsistent"), "True Consistent");
}

#[test]
fn a_stale_read_is_not_used() {
    let mut model = Model::new_settled(2);
    let old = model.floating_ip.observed.clone().expect("seen");
    model.floating_ip.observed = Some(ObservedFloatingIp {
        at: old.at.saturating_sub(70 * SECOND),
        ..old
    });
    model.node("a").cordoned = true;
    model.run();
    let urgent = |step: &Step| *step == Step::Read { urgent: true };
    let assign = |step: &Step| matches!(step, Step::Assign { .. });
    assert!(model.first_time(urgent) < model.first_time(assign));
}

#[test]
fn of_two_labels_one_goes_although_the_floating_ip_cannot_come() {
    let mut model = Model::new_unsettled(3);
    model.node("a").labels = LabelState::All;
    model.node("c").labels = LabelState::All;
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Throttled);
    model.advance(5 * SECOND);
    assert_eq!(model.labeled_nodes(), ["a"]);
    assert_eq!(model.provider.server, None);
}

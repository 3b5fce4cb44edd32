//! Complete moves: their order and stages, and what happens when the provider does not respond,
//! does not finish, or refuses.

use std::time::Duration;

use aplomb_api::DurationString;
use aplomb_api::egress::{MoveCause, MoveStages};

use super::model::{Model, SECOND, node};
use super::provider::Mood;
use crate::decide::Step;
use crate::egress::{CandidateNode, LabelState, NodeReady, ProviderTrouble};

fn unreachable() -> ProviderTrouble {
    ProviderTrouble::Unreachable("no route".to_owned())
}

#[test]
fn a_move_costs_one_assign_one_read_and_polls() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    assert_eq!((model.assigns(), model.reads()), (1, 1));
    let polls = model.count(|step| matches!(step, Step::Poll { .. }));
    assert!(polls <= 3, "{polls}");
}

#[test]
fn the_first_assign_needs_no_read_when_one_was_just_made() {
    let mut model = Model::new_settled(2);
    model.uptime += 20 * SECOND;
    model.node("a").cordoned = true;
    model.run();
    assert!(matches!(model.log[0].1, Step::Assign { .. }));
}

#[test]
fn every_stage_of_a_move_is_timed() {
    let mut model = Model::new_settled(2);
    model.node("a").prepared = false;
    model.provider.assign_time = Some(3 * SECOND);
    model.advance(310 * SECOND);
    model.assert_gateway("b", 2);
    let last = model.status.last_move.clone().expect("a move");
    assert_eq!((last.from.as_deref(), last.to.as_str()), (Some("a"), "b"));
    let MoveStages {
        decide: Some(decide),
        accept: Some(accept),
        assign: Some(assign),
        label: Some(label),
        unlabelled: Some(unlabelled),
        total: Some(total),
    } = last.stages
    else {
        panic!("a stage is missing: {last:?}");
    };
    assert_eq!(decide, DurationString::from_secs(300));
    assert_eq!(total.0, decide.0 + accept.0 + assign.0 + label.0);
    assert!(assign.0 >= 3 * SECOND && assign.0 < 4 * SECOND, "{assign}");
    assert_eq!(unlabelled.0, model.latency, "strip and label are consecutive");
    assert!(!last.overdue);
}

#[test]
fn a_move_that_is_late_is_reported_once() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Throttled);
    model.advance(300 * SECOND);
    let late = |note: &&String| note.starts_with("MoveDeadlineExceeded");
    assert_eq!(model.notes.iter().filter(late).count(), 1);
    assert!(model.status.moving.as_ref().is_some_and(|m| m.overdue));
    model.provider.mood = Mood::Healthy;
    model.advance(5 * SECOND);
    assert!(model.status.last_move.as_ref().is_some_and(|m| m.overdue));
    assert_eq!(model.notes.iter().filter(late).count(), 1);
}

#[test]
fn a_lost_reply_is_looked_into_before_anything_is_repeated() {
    let mut model = Model::new_settled(2);
    model.provider.mood = Mood::LosesReplies;
    model.provider.assign_time = Some(Duration::ZERO);
    model.node("a").cordoned = true;
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    assert_eq!(model.assigns(), 1);
}

#[test]
fn a_lost_reply_of_a_slow_action_ends_well() {
    let mut model = Model::new_settled(2);
    model.provider.mood = Mood::LosesReplies;
    model.provider.assign_time = Some(5 * SECOND);
    model.node("a").cordoned = true;
    model.advance(20 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_refusal_is_looked_into_before_anything_is_repeated() {
    let mut model = Model::new_settled(2);
    model.provider.refusing_servers = vec![2];
    model.node("a").cordoned = true;
    model.advance(5 * SECOND);
    let steps = model.log.iter().map(|(_, step)| step);
    let assigns: Vec<bool> = steps.map(|s| matches!(s, Step::Assign { .. })).collect();
    let twice = assigns.windows(2).any(|pair| pair == [true, true]);
    assert!(assigns.len() >= 3 && !twice, "{assigns:?}");
}

#[test]
fn a_stuck_action_is_looked_into_and_then_repeated() {
    let mut model = Model::new_settled(2);
    model.provider.assign_time = None;
    model.node("a").cordoned = true;
    model.advance(59 * SECOND);
    assert_eq!((model.assigns(), model.reads()), (1, 0));
    model.advance(20 * SECOND);
    assert!(model.reads() > 0);
    assert!(model.assigns() > 1);
    assert_eq!(model.labeled_nodes(), ["a"]);
    model.provider.abort();
    model.provider.assign_time = Some(SECOND);
    model.advance(20 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_gateway_that_recovers_does_not_call_back_an_accepted_assign() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.run();
    assert!(model.provider.is_busy());
    model.node("a").cordoned = false;
    model.run();
    let to = model.status.moving.as_ref().map(|moving| moving.to.as_str());
    assert_eq!(to, Some("b"), "the floating IP is moving there");
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    assert_eq!(model.assigns(), 1);
}

#[test]
fn a_new_leader_ends_the_move_of_the_old_one() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.run();
    model.restart();
    model.advance(10 * SECOND);
    model.assert_gateway("b", 2);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::NodeCordoned);
}

#[test]
fn a_new_leader_between_strip_and_label_labels_the_holder() {
    let mut model = Model::new_settled(3);
    model.provider.server = Some(3);
    model.node("a").labels = LabelState::None;
    model.restart();
    model.advance(SECOND);
    model.assert_gateway("c", 3);
    assert_eq!(model.assigns(), 0);
}

#[test]
fn a_candidate_that_dies_on_the_way_is_replaced_by_the_next() {
    let mut model = Model::new_settled(3);
    model.node("a").cordoned = true;
    model.provider.mood = Mood::WritesFail(unreachable());
    model.advance(20 * SECOND);
    model.node("b").terminating = true;
    model.provider.mood = Mood::Healthy;
    model.advance(10 * SECOND);
    model.assert_gateway("c", 3);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!((last.from.as_deref(), last.cause), (Some("a"), MoveCause::NodeCordoned));
    assert!(last.stages.total.is_some_and(|total| total.0 > 20 * SECOND));
}

#[test]
fn a_lower_name_that_comes_back_does_not_divert_a_move() {
    let mut model = Model::new_settled(3);
    model.node("b").prepared = false;
    model.node("a").cordoned = true;
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Throttled);
    model.advance(5 * SECOND);
    model.node("b").prepared = true;
    model.provider.mood = Mood::Healthy;
    model.advance(10 * SECOND);
    model.assert_gateway("c", 3);
}

#[test]
fn the_next_candidate_is_not_tried_because_the_provider_is_unwell() {
    let mut model = Model::new_settled(3);
    model.node("a").cordoned = true;
    for trouble in [ProviderTrouble::Throttled, unreachable()] {
        model.provider.mood = Mood::WritesFail(trouble);
        model.advance(60 * SECOND);
    }
    let other = |step: &Step| matches!(step, Step::Assign { node, .. } if node != "b");
    assert_eq!(model.count(other), 0);
}

#[test]
fn a_deleted_gateway_is_replaced_at_once() {
    let mut model = Model::new_settled(2);
    model.nodes.retain(|node| node.name != "a");
    model.provider.server = None;
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::NodeDeleted);
}

#[test]
fn a_gateway_that_loses_its_candidate_label_is_replaced_at_once() {
    let mut model = Model::new_settled(2);
    model.node("a").candidate = false;
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::CandidateLost);
}

#[test]
fn a_move_by_hand_to_another_candidate_is_adopted() {
    let mut model = Model::new_settled(3);
    model.provider.server = Some(3);
    model.advance(40 * SECOND);
    model.assert_gateway("c", 3);
    assert_eq!(model.step_log(), ["strip a", "label c"]);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::Adopted);
    assert!(model.status.recent_moves.is_empty(), "it was not ours");
}

#[test]
fn what_is_on_a_foreign_server_at_first_sight_is_just_assigned() {
    let mut model = Model::new_unsettled(2);
    model.provider.server = Some(77);
    model.advance(5 * SECOND);
    model.assert_gateway("a", 1);
}

#[test]
fn another_floating_ip_is_fetched_wherever_it_is() {
    let mut model = Model::new_settled(2);
    (model.provider.id, model.provider.server) = (4712, Some(77));
    model.advance(40 * SECOND);
    model.assert_gateway("a", 1);
    assert_eq!(model.status.floating_ip_id, Some(4712));
}

#[test]
fn a_gateway_with_only_its_cilium_node_left_was_deleted() {
    let mut model = Model::new_settled(2);
    *model.node("a") = CandidateNode {
        server: None,
        candidate: false,
        cilium: Some(LabelState::All),
        ready: NodeReady::Unknown,
        terminating: true,
        prepared: false,
        ..node("a", 1)
    };
    model.advance(5 * SECOND);
    model.assert_gateway("b", 2);
    let last = model.status.last_move.as_ref().expect("a move");
    assert_eq!(last.cause, MoveCause::NodeDeleted);
}

#[test]
fn an_action_without_effect_is_repeated_at_a_pace() {
    let mut model = Model::new_settled(2);
    model.provider.assign_time = Some(Duration::ZERO);
    model.provider.ignoring_servers = vec![2];
    model.node("a").terminating = true;
    model.advance(SECOND / 2);
    assert_eq!((model.assigns(), model.reads()), (1, 1));
    model.advance(300 * SECOND);
    assert!((6..=18).contains(&model.assigns()), "{}", model.assigns());
    assert_eq!(model.label_changes(), 0);
    model.provider.ignoring_servers.clear();
    model.advance(40 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_read_that_lags_behind_the_action_costs_no_second_assign() {
    let mut model = Model::new_settled(2);
    model.provider.assign_time = Some(Duration::ZERO);
    model.provider.ignoring_servers = vec![2];
    model.node("a").terminating = true;
    model.advance(SECOND / 2);
    model.provider.server = Some(2);
    model.advance(2 * SECOND);
    model.assert_gateway("b", 2);
    assert_eq!(model.assigns(), 1);
}

#[test]
fn a_server_that_only_seems_to_take_it_is_passed_over() {
    let mut model = Model::new_settled(3);
    model.provider.ignoring_servers = vec![2];
    model.node("a").terminating = true;
    model.advance(30 * SECOND);
    model.assert_gateway("c", 3);
    assert_eq!(model.assigns(), 5);
}

#[test]
fn what_is_refused_for_good_costs_little() {
    for nodes in [2, 3] {
        let mut model = Model::new_settled(nodes);
        model.provider.refusing_servers = vec![2, 3];
        model.node("a").terminating = true;
        model.advance(120 * SECOND);
        model.log.clear();
        model.advance(3_600 * SECOND);
        let calls = model.assigns() + model.reads();
        assert!(calls <= 3 * 240, "{calls} with {nodes} nodes");
        model.provider.refusing_servers.clear();
        model.advance(40 * SECOND);
        model.assert_gateway("b", 2);
    }
}

//! Tests of conditions: their reasons, and when they change.

use std::time::Duration;

use aplomb_api::egress::reasons;

use super::model::{Model, SECOND};
use super::provider::Mood;
use crate::egress::{NodeReady, ProviderTrouble};

/// The state after `trouble` occurred at the next read.
fn model_after(trouble: ProviderTrouble, time: Duration) -> Model {
    let mut model = Model::new_settled(2);
    model.provider.mood = Mood::Failing(trouble);
    model.advance(time);
    model
}

#[test]
fn each_trouble_of_the_provider_has_its_reason() {
    let token = "Secret kube-system/hcloud does not exist: create it";
    let troubles = [
        (ProviderTrouble::NoToken(token.to_owned()), "NoToken"),
        (ProviderTrouble::Unauthorized, "TokenRefused"),
        (ProviderTrouble::NotFound, "FloatingIPNotFound"),
        (ProviderTrouble::Unreachable("502".to_owned()), "ProviderUnreachable"),
    ];
    for (trouble, reason) in troubles {
        let model = model_after(trouble, 34 * SECOND);
        assert_eq!(model.available_reason(), format!("False {reason}"));
        assert_eq!(model.condition_reason("Ready"), model.available_reason());
    }
}

#[test]
fn a_missing_token_is_reported_with_its_source() {
    let token = "Secret kube-system/hcloud does not exist: create it";
    let model = model_after(ProviderTrouble::NoToken(token.to_owned()), 34 * SECOND);
    assert_eq!(model.condition_message("Available"), token);
}

#[test]
fn what_was_seen_stands_for_a_while_when_reads_are_throttled() {
    let model = model_after(ProviderTrouble::Throttled, 280 * SECOND);
    assert_eq!(model.available_reason(), "True Serving");
    assert_eq!(model.condition_reason("ProviderReachable"), "True Answers");
    let model = model_after(ProviderTrouble::Throttled, 350 * SECOND);
    assert_eq!(model.available_reason(), "Unknown Stale");
    assert_eq!(model.condition_reason("ProviderReachable"), "False Throttled");
}

#[test]
fn a_working_gateway_is_ready_and_redundant() {
    let model = Model::new_settled(2);
    assert_eq!(model.condition_reason("Ready"), "True Serving");
    assert_eq!(model.condition_reason("Redundant"), "True StandbyReady");
    assert_eq!(model.condition_reason("LabelsConsistent"), "", "without Cilium");
}

#[test]
fn a_lone_candidate_is_distinguished_from_none() {
    let mut model = Model::new_settled(2);
    model.node("b").prepared = false;
    model.run();
    assert_eq!(model.condition_reason("Redundant"), "False NoStandby");
    assert!(model.condition_message("Redundant").contains("b is not prepared"));
    assert_eq!(model.available_reason(), "True Serving");
    assert_eq!((model.status.candidates.total, model.status.candidates.ready), (2, 1));
}

#[test]
fn no_candidate_left_is_an_event_within_one_resync() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::Unknown;
    model.node("b").ready = NodeReady::Unknown;
    model.spec.graces.unhealthy = Some(aplomb_api::DurationString::default());
    model.advance(SECOND);
    assert_eq!(model.available_reason(), "False NoCandidate");
    let warned = |note: &String| note.starts_with(reasons::NO_CANDIDATE);
    assert!(model.notes.iter().any(warned), "{:?}", model.notes);
}

#[test]
fn a_candidate_that_lost_its_label_with_no_candidate_left_is_not_available() {
    let mut model = Model::new_settled(1);
    model.node("a").candidate = false;
    model.advance(SECOND);
    assert_eq!(model.available_reason(), "False NoCandidate");
    assert!(model.condition_message("Available").contains("no node is a candidate"));
    model.assert_untouched();
}

#[test]
fn a_move_reports_what_it_waits_for() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Locked);
    model.advance(5 * SECOND);
    assert_eq!(model.available_reason(), "False Moving");
    assert!(model.condition_message("Available").contains("locked"));
}

#[test]
fn an_unassigned_floating_ip_is_not_available_while_held() {
    let mut model = Model::new_settled(2);
    model.hold = Some("true".to_owned());
    model.provider.server = None;
    model.advance(34 * SECOND);
    assert_eq!(model.available_reason(), "False Unassigned");
}

#[test]
fn a_move_is_reported_with_its_cause() {
    let mut model = Model::new_settled(2);
    model.node("a").cordoned = true;
    model.advance(5 * SECOND);
    let told = "Moved: 203.0.113.7 moved from a to b (NodeCordoned) in";
    assert!(
        model.notes.iter().any(|note| note.starts_with(told)),
        "{:?}",
        model.notes
    );
}

#[test]
fn pods_that_are_not_watched_are_reported_and_nothing_is_moved() {
    let mut model = Model::new_settled(2);
    model.unwatched = Some("spec.prepared selects pods elsewhere".to_owned());
    for name in ["a", "b"] {
        model.node(name).prepared = false;
    }
    model.advance(3600 * SECOND);
    assert_eq!(model.available_reason(), "False PodsNotWatched");
    assert_eq!(model.condition_reason("Ready"), model.available_reason());
    assert_eq!(model.writes_to_provider(), 0);
    assert_eq!(model.labeled_nodes(), ["a"]);
    assert!(model.notes.iter().any(|note| note.starts_with("PodsNotWatched")));
    model.unwatched = None;
    for name in ["a", "b"] {
        model.node(name).prepared = true;
    }
    model.advance(SECOND);
    assert_eq!(model.available_reason(), "True Serving");
}

#[test]
fn a_candidate_that_can_never_be_chosen_is_reported_once_when_it_is_first_seen() {
    let mut model = Model::new_settled(3);
    let told = |model: &Model| {
        let notes = model.notes.iter();
        notes.filter(|note| note.starts_with(reasons::NO_SERVER)).count()
    };
    model.node("c").server = None;
    model.advance(120 * SECOND);
    assert_eq!(
        model.condition_reason("Redundant"),
        "True StandbyReady",
        "other nodes could take over"
    );
    assert_eq!(told(&model), 1);
    model.notes.clear();
    model.advance(120 * SECOND);
    assert_eq!(told(&model), 0, "it is known");
}

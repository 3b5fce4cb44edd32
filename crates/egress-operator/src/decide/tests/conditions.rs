//! Tests of conditions: their reasons, and when they change.

use std::time::Duration;

use aplomb_api::egress::reasons;

use super::model::{Model, SECOND};
use super::provider::Mood;
use crate::world::{NodeReady, ProviderTrouble};

/// The state after `trouble` occurred at the next read.
fn after(trouble: ProviderTrouble, time: Duration) -> Model {
    let mut model = Model::settled(2);
    model.provider.mood = Mood::Troubled(trouble);
    model.pass(time);
    model
}

#[test]
fn each_trouble_of_the_provider_has_its_reason() {
    let token = "Secret kube-system/hcloud does not exist: create it";
    let troubles = [
        (ProviderTrouble::NoToken(token.to_owned()), "NoToken"),
        (ProviderTrouble::Unauthorized, "TokenRefused"),
        (ProviderTrouble::NotFound, "FloatingIPNotFound"),
        (
            ProviderTrouble::Unreachable("502".to_owned()),
            "ProviderUnreachable",
        ),
    ];
    for (trouble, reason) in troubles {
        let model = after(trouble, 34 * SECOND);
        assert_eq!(model.available(), format!("False {reason}"));
        assert_eq!(model.says("Ready"), model.available());
    }
}

#[test]
fn a_missing_token_is_told_in_the_words_of_who_looked_for_it() {
    let token = "Secret kube-system/hcloud does not exist: create it";
    let model = after(ProviderTrouble::NoToken(token.to_owned()), 34 * SECOND);
    assert_eq!(model.message("Available"), token);
}

#[test]
fn what_was_seen_stands_for_a_while_when_looks_are_throttled() {
    let model = after(ProviderTrouble::Throttled, 280 * SECOND);
    assert_eq!(model.available(), "True Serving");
    assert_eq!(model.says("ProviderReachable"), "True Answers");
    let model = after(ProviderTrouble::Throttled, 350 * SECOND);
    assert_eq!(model.available(), "Unknown Stale");
    assert_eq!(model.says("ProviderReachable"), "False Throttled");
}

#[test]
fn a_working_gateway_is_ready_and_redundant() {
    let model = Model::settled(2);
    assert_eq!(model.says("Ready"), "True Serving");
    assert_eq!(model.says("Redundant"), "True StandbyReady");
    assert_eq!(model.says("LabelsConsistent"), "", "without Cilium");
}

#[test]
fn a_lone_candidate_is_told_apart_from_none() {
    let mut model = Model::settled(2);
    model.node("b").prepared = false;
    model.run();
    assert_eq!(model.says("Redundant"), "False NoStandby");
    assert!(model.message("Redundant").contains("b is not prepared"));
    assert_eq!(model.available(), "True Serving");
    assert_eq!(
        (model.status.candidates.total, model.status.candidates.ready),
        (2, 1)
    );
}

#[test]
fn no_candidate_left_is_an_event_within_one_resync() {
    let mut model = Model::settled(2);
    model.node("a").ready = NodeReady::Unknown;
    model.node("b").ready = NodeReady::Unknown;
    model.spec.graces.unhealthy = Some(aplomb_api::DurationString::default());
    model.pass(SECOND);
    assert_eq!(model.available(), "False NoCandidate");
    let warned = |note: &String| note.starts_with(reasons::NO_CANDIDATE);
    assert!(model.notes.iter().any(warned), "{:?}", model.notes);
}

#[test]
fn a_candidate_that_lost_its_label_with_nobody_left_is_not_available() {
    let mut model = Model::settled(1);
    model.node("a").candidate = false;
    model.pass(SECOND);
    assert_eq!(model.available(), "False NoCandidate");
    assert!(
        model
            .message("Available")
            .contains("no node is a candidate")
    );
    model.assert_untouched();
}

#[test]
fn a_move_says_what_it_waits_for() {
    let mut model = Model::settled(2);
    model.node("a").cordoned = true;
    model.provider.mood = Mood::WritesTroubled(ProviderTrouble::Locked);
    model.pass(5 * SECOND);
    assert_eq!(model.available(), "False Moving");
    assert!(model.message("Available").contains("locked"));
}

#[test]
fn an_unassigned_floating_ip_is_not_available_while_held() {
    let mut model = Model::settled(2);
    model.hold = Some("true".to_owned());
    model.provider.server = None;
    model.pass(34 * SECOND);
    assert_eq!(model.available(), "False Unassigned");
}

#[test]
fn a_move_is_told_with_its_cause() {
    let mut model = Model::settled(2);
    model.node("a").cordoned = true;
    model.pass(5 * SECOND);
    let told = "Moved: 203.0.113.7 moved from a to b (NodeCordoned) in";
    assert!(
        model.notes.iter().any(|note| note.starts_with(told)),
        "{:?}",
        model.notes
    );
}

#[test]
fn pods_that_nobody_watches_are_said_and_nothing_is_moved() {
    let mut model = Model::settled(2);
    model.unwatched = Some("spec.prepared selects pods elsewhere".to_owned());
    for name in ["a", "b"] {
        model.node(name).prepared = false;
    }
    model.pass(3600 * SECOND);
    assert_eq!(model.available(), "False PodsNotWatched");
    assert_eq!(model.says("Ready"), model.available());
    assert_eq!(model.writes_to_provider(), 0);
    assert_eq!(model.labelled(), ["a"]);
    assert!(
        model
            .notes
            .iter()
            .any(|note| note.starts_with("PodsNotWatched"))
    );
    model.unwatched = None;
    for name in ["a", "b"] {
        model.node(name).prepared = true;
    }
    model.pass(SECOND);
    assert_eq!(model.available(), "True Serving");
}

#[test]
fn a_candidate_that_can_never_be_chosen_is_told_once_when_it_is_first_seen() {
    let mut model = Model::settled(3);
    let told = |model: &Model| {
        let notes = model.notes.iter();
        notes
            .filter(|note| note.starts_with(reasons::NO_SERVER))
            .count()
    };
    model.node("c").server = None;
    model.pass(120 * SECOND);
    assert_eq!(model.says("Redundant"), "True StandbyReady", "other nodes could take over");
    assert_eq!(told(&model), 1);
    model.notes.clear();
    model.pass(120 * SECOND);
    assert_eq!(told(&model), 0, "it is known");
}

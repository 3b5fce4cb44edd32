//! A provider that refuses only the term label: reads and moves continue as documented.

use super::model::{Model, SECOND};
use super::provider::Mood;
use crate::decide::decide;
use crate::world::{LabelState, MoveInProgress, ProviderTrouble, Step};

fn troubles() -> [ProviderTrouble; 6] {
    [
        ProviderTrouble::Unauthorized,
        ProviderTrouble::Refused("invalid_input".to_owned()),
        ProviderTrouble::Locked,
        ProviderTrouble::Throttled,
        ProviderTrouble::Unreachable("no answer".to_owned()),
        ProviderTrouble::NotFound,
    ]
}

/// `a` is the gateway, and a leader with term 4 cannot write its term.
fn refused(trouble: ProviderTrouble) -> Model {
    let mut model = Model::settled(2);
    model.term = 4;
    model.provider.mood = Mood::ClaimsTroubled(trouble);
    model
}

fn claims(model: &Model) -> usize {
    model.count(|step| *step == Step::Claim)
}

#[test]
fn a_refused_term_keeps_no_look_away() {
    for trouble in troubles() {
        let mut model = refused(trouble.clone());
        model.pass(3_600 * SECOND);
        let reads = model.reads();
        assert!((108..=120).contains(&reads), "{reads} for {trouble:?}");
        assert!((2..=12).contains(&claims(&model)), "{}", claims(&model));
    }
}

#[test]
fn an_address_that_is_unassigned_comes_back_while_the_term_is_refused() {
    for trouble in troubles() {
        for before in [0, 10, 31, 400] {
            let mut model = refused(trouble.clone());
            model.pass(before * SECOND);
            model.provider.server = None;
            model.pass(35 * SECOND);
            model.assert_gateway("a", 1);
        }
    }
}

#[test]
fn after_an_outage_the_look_comes_before_the_term() {
    let mut model = Model::settled(2);
    model.term = 4;
    model.provider.mood = Mood::Troubled(ProviderTrouble::Unreachable("down".to_owned()));
    model.pass(40 * SECOND);
    model.provider.mood = Mood::Well;
    model.log.clear();
    model.pass(70 * SECOND);
    let first = &model.log[0].1;
    assert!(matches!(first, Step::Read { .. }), "{:?}", model.log);
    assert_eq!(model.provider.term, 4);
}

#[test]
fn a_refused_term_is_said_and_makes_nothing_unavailable() {
    for trouble in troubles() {
        let mut model = refused(trouble);
        model.pass(5 * SECOND);
        assert_eq!(model.says("Fenced"), "", "one failure may pass");
        model.pass(70 * SECOND);
        assert_eq!(model.says("Fenced"), "False TermNotWritten");
        assert_eq!(model.available(), "True Serving");
        assert_eq!(model.says("ProviderReachable"), "True Answers");
        let told = |note: &&String| note.starts_with("TermNotWritten: ");
        assert_eq!(model.notes.iter().filter(told).count(), 1);
        model.provider.mood = Mood::Well;
        model.pass(600 * SECOND);
        assert_eq!(
            (model.says("Fenced"), model.provider.term),
            (String::new(), 4)
        );
    }
}

#[test]
fn a_gateway_that_goes_is_replaced_while_the_term_is_refused() {
    for trouble in troubles() {
        let mut model = refused(trouble);
        model.pass(100 * SECOND);
        model.node("a").terminating = true;
        model.pass(5 * SECOND);
        model.assert_gateway("b", 2);
    }
}

#[test]
fn a_term_that_was_left_behind_and_cannot_be_replaced_stops_no_move() {
    for trouble in troubles() {
        let mut model = Model::settled(2);
        (model.term, model.provider.term) = (3, 9);
        model.provider.mood = Mood::ClaimsTroubled(trouble);
        model.pass(50 * SECOND);
        assert_eq!(model.available(), "Unknown NewerLeader");
        model.node("a").terminating = true;
        model.pass(5 * SECOND);
        assert_eq!(model.provider.server, Some(1), "it stands down");
        model.pass(60 * SECOND);
        model.assert_gateway("b", 2);
        model.pass(600 * SECOND);
        model.assert_gateway("b", 2);
        assert_eq!(model.says("Fenced"), "False TermNotWritten");
    }
}

#[test]
fn a_newer_term_than_the_one_that_was_not_replaced_is_stood_down_for() {
    let mut model = refused(ProviderTrouble::Unauthorized);
    model.pass(100 * SECOND);
    model.provider.term = 9;
    model.pass(40 * SECOND);
    assert_eq!(model.available(), "Unknown NewerLeader");
    model.node("a").terminating = true;
    model.pass(15 * SECOND);
    assert_eq!(model.provider.server, Some(1));
}

#[test]
fn a_look_that_fails_too_is_not_put_off_either() {
    let mut model = Model::settled(2);
    model.term = 4;
    model.provider.mood = Mood::Troubled(ProviderTrouble::Unreachable("down".to_owned()));
    model.pass(3_600 * SECOND);
    assert!((100..=121).contains(&model.reads()), "{}", model.reads());
    assert!(claims(&model) <= 12, "{}", claims(&model));
}

#[test]
fn a_term_that_was_written_without_an_answer_is_not_said_to_be_missing() {
    let mut model = Model::settled(2);
    model.term = 4;
    model.provider.mood = Mood::LosesReplies;
    model.pass(600 * SECOND);
    assert_eq!(
        (model.says("Fenced"), model.provider.term),
        (String::new(), 4)
    );
    assert_eq!(claims(&model), 1, "a read has shown it");
}

/// The API server refuses to remove a label from another node: each reconcile ends there, and the
/// next one starts from the beginning.
#[test]
fn a_label_that_cannot_be_taken_away_keeps_no_look_away() {
    let mut model = Model::settled(2);
    model.node("b").labels = LabelState::All;
    let step = |model: &Model| decide(&model.world()).step.expect("a step");
    assert!(matches!(step(&model), Step::Strip { node, .. } if node == "b"));
    for _ in 0..3 {
        model.uptime += 40 * SECOND;
        assert_eq!(step(&model), Step::Read { urgent: false });
        model.cloud.seen.as_mut().expect("the floating IP was read").at = model.uptime;
        assert!(matches!(step(&model), Step::Strip { node, .. } if node == "b"));
    }
    // A provider that is down does not keep the label there either.
    model.uptime += 40 * SECOND;
    model.cloud.trouble = Some(ProviderTrouble::Unreachable("down".to_owned()));
    model.cloud.trouble_at = Some(model.uptime);
    assert!(matches!(step(&model), Step::Strip { node, .. } if node == "b"));
}

/// A read-only token: a person moves the address by hand, and that is seen within a resync.
#[test]
fn an_assign_that_the_token_may_not_make_keeps_no_look_away() {
    let mut model = Model::settled(2);
    model.node("a").terminating = true;
    model.uptime += 60 * SECOND;
    model.moving = Some(MoveInProgress {
        node: "b".to_owned(),
        server: 2,
        action: None,
        looked: true,
        refusals: 0,
        locks: 0,
        passed: std::collections::BTreeSet::new(),
    });
    model.cloud.trouble = Some(ProviderTrouble::Unauthorized);
    model.cloud.trouble_at = Some(model.uptime - 31 * SECOND);
    model.cloud.troubles = 1;
    let step = decide(&model.world()).step;
    assert_eq!(step, Some(Step::Read { urgent: true }));
}

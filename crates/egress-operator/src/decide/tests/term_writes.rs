//! A provider that refuses only the term label: reads and moves continue as documented.

use super::model::{Model, SECOND};
use super::provider::Mood;
use crate::decide::{Step, decide};
use crate::egress::{LabelState, MoveInProgress, ProviderTrouble};

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
fn model_with_refusal(trouble: ProviderTrouble) -> Model {
    let mut model = Model::new_settled(2);
    model.term = 4;
    model.provider.mood = Mood::TermWritesFail(trouble);
    model
}

fn count_term_writes(model: &Model) -> usize {
    model.count(|step| *step == Step::WriteTerm)
}

#[test]
fn a_refused_term_does_not_prevent_reads() {
    for trouble in troubles() {
        let mut model = model_with_refusal(trouble.clone());
        model.advance(3_600 * SECOND);
        let reads = model.reads();
        assert!((108..=120).contains(&reads), "{reads} for {trouble:?}");
        assert!(
            (2..=12).contains(&count_term_writes(&model)),
            "{}",
            count_term_writes(&model)
        );
    }
}

#[test]
fn an_address_that_is_unassigned_comes_back_while_the_term_is_refused() {
    for trouble in troubles() {
        for before in [0, 10, 31, 400] {
            let mut model = model_with_refusal(trouble.clone());
            model.advance(before * SECOND);
            model.provider.server = None;
            model.advance(35 * SECOND);
            model.assert_gateway("a", 1);
        }
    }
}

#[test]
fn after_an_outage_the_read_comes_before_the_term() {
    let mut model = Model::new_settled(2);
    model.term = 4;
    model.provider.mood = Mood::Failing(ProviderTrouble::Unreachable("down".to_owned()));
    model.advance(40 * SECOND);
    model.provider.mood = Mood::Healthy;
    model.log.clear();
    model.advance(70 * SECOND);
    let first = &model.log[0].1;
    assert!(matches!(first, Step::Read { .. }), "{:?}", model.log);
    assert_eq!(model.provider.term, 4);
}

#[test]
fn a_refused_term_is_reported_and_makes_nothing_unavailable() {
    for trouble in troubles() {
        let mut model = model_with_refusal(trouble);
        model.advance(5 * SECOND);
        assert_eq!(model.condition_reason("Fenced"), "", "one failure may pass");
        model.advance(70 * SECOND);
        assert_eq!(model.condition_reason("Fenced"), "False TermNotWritten");
        assert_eq!(model.available_reason(), "True Serving");
        assert_eq!(model.condition_reason("ProviderReachable"), "True Answers");
        let told = |note: &&String| note.starts_with("TermNotWritten: ");
        assert_eq!(model.notes.iter().filter(told).count(), 1);
        model.provider.mood = Mood::Healthy;
        model.advance(600 * SECOND);
        assert_eq!(
            (model.condition_reason("Fenced"), model.provider.term),
            (String::new(), 4)
        );
    }
}

#[test]
fn a_gateway_that_goes_is_replaced_while_the_term_is_refused() {
    for trouble in troubles() {
        let mut model = model_with_refusal(trouble);
        model.advance(100 * SECOND);
        model.node("a").terminating = true;
        model.advance(5 * SECOND);
        model.assert_gateway("b", 2);
    }
}

#[test]
fn a_term_that_was_left_behind_and_cannot_be_replaced_stops_no_move() {
    for trouble in troubles() {
        let mut model = Model::new_settled(2);
        (model.term, model.provider.term) = (3, 9);
        model.provider.mood = Mood::TermWritesFail(trouble);
        model.advance(50 * SECOND);
        assert_eq!(model.available_reason(), "Unknown NewerLeader");
        model.node("a").terminating = true;
        model.advance(5 * SECOND);
        assert_eq!(model.provider.server, Some(1), "it stands down");
        model.advance(60 * SECOND);
        model.assert_gateway("b", 2);
        model.advance(600 * SECOND);
        model.assert_gateway("b", 2);
        assert_eq!(model.condition_reason("Fenced"), "False TermNotWritten");
    }
}

#[test]
fn a_newer_term_than_the_one_that_was_not_replaced_is_stood_down_for() {
    let mut model = model_with_refusal(ProviderTrouble::Unauthorized);
    model.advance(100 * SECOND);
    model.provider.term = 9;
    model.advance(40 * SECOND);
    assert_eq!(model.available_reason(), "Unknown NewerLeader");
    model.node("a").terminating = true;
    model.advance(15 * SECOND);
    assert_eq!(model.provider.server, Some(1));
}

#[test]
fn a_read_that_fails_too_is_not_put_off_either() {
    let mut model = Model::new_settled(2);
    model.term = 4;
    model.provider.mood = Mood::Failing(ProviderTrouble::Unreachable("down".to_owned()));
    model.advance(3_600 * SECOND);
    assert!((100..=121).contains(&model.reads()), "{}", model.reads());
    assert!(count_term_writes(&model) <= 12, "{}", count_term_writes(&model));
}

#[test]
fn a_term_that_was_written_without_an_answer_is_not_reported_as_missing() {
    let mut model = Model::new_settled(2);
    model.term = 4;
    model.provider.mood = Mood::LosesReplies;
    model.advance(600 * SECOND);
    assert_eq!(
        (model.condition_reason("Fenced"), model.provider.term),
        (String::new(), 4)
    );
    assert_eq!(count_term_writes(&model), 1, "a read has shown it");
}

/// The API server refuses to remove a label from another node: each reconcile ends there, and the
/// next one starts from the beginning.
#[test]
fn a_label_that_cannot_be_removed_does_not_prevent_reads() {
    let mut model = Model::new_settled(2);
    model.node("b").labels = LabelState::All;
    let step = |model: &Model| decide(&model.observed()).step.expect("a step");
    assert!(matches!(step(&model), Step::Strip { node, .. } if node == "b"));
    for _ in 0..3 {
        model.uptime += 40 * SECOND;
        assert_eq!(step(&model), Step::Read { urgent: false });
        model
            .floating_ip
            .observed
            .as_mut()
            .expect("the floating IP was read")
            .at = model.uptime;
        assert!(matches!(step(&model), Step::Strip { node, .. } if node == "b"));
    }
    // A provider that is down does not keep the label there either.
    model.uptime += 40 * SECOND;
    model.floating_ip.trouble = Some(ProviderTrouble::Unreachable("down".to_owned()));
    model.floating_ip.trouble_at = Some(model.uptime);
    assert!(matches!(step(&model), Step::Strip { node, .. } if node == "b"));
}

/// A read-only token: a person moves the address by hand, and that is seen within a resync.
#[test]
fn a_forbidden_assign_does_not_prevent_reads() {
    let mut model = Model::new_settled(2);
    model.node("a").terminating = true;
    model.uptime += 60 * SECOND;
    model.moving = Some(MoveInProgress {
        node: "b".to_owned(),
        server: 2,
        action: None,
        read_since: true,
        refusals: 0,
        locks: 0,
        skipped_servers: std::collections::BTreeSet::new(),
    });
    model.floating_ip.trouble = Some(ProviderTrouble::Unauthorized);
    model.floating_ip.trouble_at = Some(model.uptime - 31 * SECOND);
    model.floating_ip.troubles = 1;
    let step = decide(&model.observed()).step;
    assert_eq!(step, Some(Step::Read { urgent: true }));
}

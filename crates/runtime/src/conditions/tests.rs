//! Conditions after sequences of passes.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::action::Action;
use crate::error::{Error, ErrorClass};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).expect("a time")
}

fn single_change(condition: Condition) -> ConditionChanges {
    let mut wishes = ConditionChanges::default();
    wishes.set(condition);
    wishes
}

fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// The conditions after a pass that ended with `outcome`.
fn resolve_and_merge(existing: &[Value], said: &ConditionChanges, outcome: PassOutcome<'_>) -> Vec<Value> {
    let was = find(existing, READY).and_then(|it| ConditionStatus::parse(it["status"].as_str()?));
    match resolve_conditions(said, outcome, was) {
        Some(wishes) => merge_conditions(existing, &wishes, Some(2), at(60)),
        None => existing.to_vec(),
    }
}

fn ready() -> Vec<Value> {
    merge_conditions(
        &[],
        &single_change(Condition::new_true(READY, "Settled", "fine")),
        Some(1),
        at(0),
    )
}

fn failed(class: ErrorClass) -> Error {
    Error::new(class, "attempt 7 at 12:34:56")
}

#[test]
fn the_transition_time_moves_only_with_the_status() {
    let first = ready();
    let again = merge_conditions(
        &first,
        &single_change(Condition::new_true(READY, "Other", "still")),
        Some(2),
        at(9),
    );
    assert_eq!(again[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
    assert_eq!(
        (&again[0]["reason"], &again[0]["observedGeneration"]),
        (&json!("Other"), &json!(2))
    );
    let lost = merge_conditions(
        &again,
        &single_change(Condition::new_false(READY, "Lost", "gone")),
        Some(2),
        at(9),
    );
    assert_eq!(lost[0]["lastTransitionTime"], "2026-01-01T00:00:09Z");
}

#[test]
fn done_is_ready_unless_the_reconcile_set_ready() {
    let settled = PassOutcome::Action(&Action::Done);
    let by_itself = resolve_and_merge(&[], &ConditionChanges::default(), settled);
    assert_eq!(find(&by_itself, READY).expect("Ready")["status"], "True");
    let said = single_change(Condition::new_unknown(READY, "Stale", "the cache is stale"));
    let told = resolve_and_merge(&ready(), &said, settled);
    assert_eq!(find(&told, READY).expect("Ready")["status"], "Unknown");
}

#[test]
fn requeue_does_not_set_unproven_ready() {
    let recheck = Action::RequeueAfter(Duration::from_secs(5));
    let fresh = resolve_and_merge(&[], &ConditionChanges::default(), PassOutcome::Action(&recheck));
    assert_eq!(find(&fresh, READY).expect("Ready")["status"], "Unknown");
    assert_eq!(
        resolve_and_merge(&ready(), &ConditionChanges::default(), PassOutcome::Action(&recheck)),
        ready()
    );
}

#[test]
fn a_conflict_leaves_no_trace() {
    let error = failed(ErrorClass::Conflict);
    assert_eq!(
        resolve_conditions(
            &single_change(Condition::new_false(READY, "X", "x")),
            PassOutcome::Failed(&error),
            Some(ConditionStatus::True)
        ),
        None
    );
}

#[test]
fn pushback_leaves_ready_as_last_proven() {
    for class in [
        ErrorClass::Throttled,
        ErrorClass::Unavailable,
        ErrorClass::Missing,
        ErrorClass::Fault,
    ] {
        let error = failed(class);
        let now = resolve_and_merge(&ready(), &ConditionChanges::default(), PassOutcome::Failed(&error));
        assert_eq!(find(&now, READY), Some(&ready()[0]), "{class:?}");
        let reconciling = find(&now, RECONCILING).expect("Reconciling");
        assert_eq!(
            (&reconciling["status"], &reconciling["reason"]),
            (&json!("True"), &json!(class.as_str()))
        );
        assert!(!reconciling["message"].to_string().contains("attempt"), "{reconciling}");
    }
}

#[test]
fn refusal_is_shown_with_its_message() {
    let words = "configmaps \"a\" is forbidden: exceeded quota: few";
    let error = Error::new(ErrorClass::Forbidden, words);
    let now = resolve_and_merge(&ready(), &ConditionChanges::default(), PassOutcome::Failed(&error));
    assert_eq!(find(&now, READY), Some(&ready()[0]));
    let reconciling = find(&now, RECONCILING).expect("Reconciling");
    assert_eq!(reconciling["reason"], "Forbidden");
    assert_eq!(reconciling["message"], words);
}

#[test]
fn first_pass_sets_a_ready_condition() {
    for outcome in [
        PassOutcome::Failed(&failed(ErrorClass::Unavailable)),
        PassOutcome::Quarantined(&failed(ErrorClass::Fault)),
    ] {
        let now = resolve_and_merge(&[], &ConditionChanges::default(), outcome);
        assert_eq!(find(&now, READY).expect("Ready")["status"], "Unknown");
    }
}

#[test]
fn invalid_spec_is_stalled_and_not_ready() {
    let rejected = Action::reject("BadPort", "spec.port must be below 65536");
    for class in [ErrorClass::Invalid, ErrorClass::Exists] {
        let error = failed(class);
        let now = resolve_and_merge(&ready(), &ConditionChanges::default(), PassOutcome::Failed(&error));
        assert_eq!(find(&now, STALLED).expect("Stalled")["reason"], class.as_str());
        assert_eq!(find(&now, READY).expect("Ready")["status"], "False");
    }
    let now = resolve_and_merge(&ready(), &ConditionChanges::default(), PassOutcome::Action(&rejected));
    assert_eq!(
        find(&now, STALLED).expect("Stalled")["message"],
        "spec.port must be below 65536"
    );
    assert_eq!(find(&now, READY).expect("Ready")["reason"], "BadPort");
}

#[test]
fn a_quarantine_stalls_and_a_later_success_clears_it() {
    let error = failed(ErrorClass::Fault);
    let now = resolve_and_merge(&ready(), &ConditionChanges::default(), PassOutcome::Quarantined(&error));
    assert_eq!(find(&now, STALLED).expect("Stalled")["reason"], "Quarantined");
    let later = resolve_and_merge(&now, &ConditionChanges::default(), PassOutcome::Action(&Action::Done));
    assert_eq!((find(&later, STALLED), find(&later, RECONCILING)), (None, None));
}

#[test]
fn invalid_reason_is_sanitized() {
    assert_eq!(Condition::new_true("X", "", "").reason, "Reason");
    assert_eq!(Condition::new_true("X", "no such thing!", "").reason, "nosuchthing");
    assert_eq!(Condition::new_true("X", "404", "").reason, "Reason404");
}

#[test]
fn removed_condition_is_deleted() {
    let mut wishes = single_change(Condition::new_true("Probed", "Ok", ""));
    let both = merge_conditions(&ready(), &wishes, None, at(1));
    wishes.remove("Probed");
    assert_eq!(merge_conditions(&both, &wishes, None, at(2)), ready());
}

fn any_outcome() -> impl Strategy<Value = (Option<Action>, ErrorClass, bool)> {
    let verdicts = prop_oneof![
        Just(Some(Action::Done)),
        Just(Some(Action::RequeueAfter(Duration::from_secs(1)))),
        Just(Some(Action::reject("R", "r"))),
        Just(None),
    ];
    (verdicts, proptest::sample::select(&ErrorClass::ALL[..]), any::<bool>())
}

proptest! {
    /// The same outcome twice in a row writes nothing the second time, after any history, and the
    /// runtime's own two conditions are present only while they hold.
    #[test]
    fn the_same_end_twice_changes_nothing(history in proptest::collection::vec(any_outcome(), 1..6)) {
        let mut conditions = Vec::new();
        for (verdict, class, quarantined) in history {
            let error = failed(class);
            let outcome = match &verdict {
                Some(verdict) => PassOutcome::Action(verdict),
                None if quarantined => PassOutcome::Quarantined(&error),
                None => PassOutcome::Failed(&error),
            };
            conditions = resolve_and_merge(&conditions, &ConditionChanges::default(), outcome);
            for kind in [RECONCILING, STALLED] {
                prop_assert!(find(&conditions, kind).is_none_or(|it| it["status"] == "True"));
            }
            prop_assert_eq!(&resolve_and_merge(&conditions, &ConditionChanges::default(), outcome), &conditions);
        }
    }
}

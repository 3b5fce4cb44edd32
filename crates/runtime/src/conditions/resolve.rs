//! From how a pass ended to the conditions the runtime itself answers for.
//!
//! `LaneReadiness` is the reconcile's to prove: a failure to look never makes it False.

use crate::error::{Error, ErrorClass};
use crate::action::Action;

use super::{Condition, ConditionChanges, ConditionStatus, READY, RECONCILING, STALLED};

/// How a pass ended.
#[derive(Clone, Copy, Debug)]
pub enum PassOutcome<'a> {
    /// With a verdict.
    Action(&'a Action),
    /// With pushback.
    Failed(&'a Error),
    /// With a defect, once too often: it will not be run again until its spec changes.
    Quarantined(&'a Error),
}

impl PassOutcome<'_> {
    /// Whether the pass has taken the whole spec into account.
    pub(crate) fn has_observed_spec(self) -> bool {
        match self {
            Self::Action(_) | Self::Quarantined(_) => true,
            Self::Failed(error) => {
                matches!(error.class(), ErrorClass::Invalid | ErrorClass::Exists)
            }
        }
    }
}

/// What a pass leaves in the conditions: what the reconcile `said`, and what its end adds to that,
/// given what `LaneReadiness` was before. `None` after a conflict, which says nothing about the object and
/// must leave no trace in it.
#[must_use]
pub fn resolve_conditions(
    said: &ConditionChanges,
    outcome: PassOutcome<'_>,
    was: Option<ConditionStatus>,
) -> Option<ConditionChanges> {
    let mut wishes = said.clone();
    // A reconcile knows better than a verdict what it still waits for.
    if said.get(RECONCILING).is_none() {
        wishes.remove(RECONCILING);
    }
    wishes.remove(STALLED);
    match outcome {
        PassOutcome::Action(verdict) => apply_action(&mut wishes, verdict, was),
        PassOutcome::Failed(error) if error.class() == ErrorClass::Conflict => return None,
        PassOutcome::Failed(error) => apply_error(&mut wishes, error),
        PassOutcome::Quarantined(error) => {
            let message = format!(
                "its reconcile keeps failing and is stopped until the spec changes: {error}"
            );
            // Nobody looks any more, so what was proven once is not known now.
            if wishes
                .get(READY)
                .is_none_or(|it| it.status == ConditionStatus::True)
            {
                wishes.set(Condition::new_unknown(READY, "Quarantined", &*message));
            }
            wishes.set(Condition::new_true(STALLED, "Quarantined", message));
        }
    }
    // Every object says something of its readiness, from its first pass on.
    if was.is_none() && wishes.get(READY).is_none() {
        wishes.set(initial_ready());
    }
    Some(wishes)
}

fn initial_ready() -> Condition {
    let message = "not proven yet; it is looked at again";
    Condition::new_unknown(READY, "Progressing", message)
}

fn apply_action(wishes: &mut ConditionChanges, verdict: &Action, was: Option<ConditionStatus>) {
    let silent = wishes.get(READY).is_none();
    match verdict {
        Action::Done if silent => {
            wishes.set(Condition::new_true(
                READY,
                "Settled",
                "everything is as the spec asks",
            ));
        }
        // Something is still to come, so it is not ready by that alone; a proof given stays.
        Action::RequeueAfter(_) if silent && was != Some(ConditionStatus::True) => {
            wishes.set(initial_ready())
        }
        Action::Done | Action::RequeueAfter(_) => {}
        Action::Blocked { reason, message } => {
            wishes.set(Condition::new_false(READY, reason, message));
        }
        Action::Reject { reason, message } => apply_stalled(wishes, reason, message),
    }
}

fn apply_error(wishes: &mut ConditionChanges, error: &Error) {
    let class = error.class();
    // An error's own text may name a port, an attempt or a time: it would change with each try. The
    // server's reasons for a refusal do not, and only they say what is to be done.
    let refused = error.to_string();
    let waiting = match class {
        ErrorClass::Invalid | ErrorClass::Exists => {
            return apply_stalled(wishes, class.as_str(), &error.to_string());
        }
        ErrorClass::Throttled => "an API it calls allows no more calls for now; it is tried again",
        ErrorClass::Unavailable => "something it calls does not answer; it is tried again",
        ErrorClass::Forbidden => &refused,
        ErrorClass::Missing => "something it reads is not there; it is tried again",
        ErrorClass::Fault | ErrorClass::Conflict => "the last pass failed; it is tried again",
    };
    wishes.set(Condition::new_true(RECONCILING, class.as_str(), waiting));
}

fn apply_stalled(wishes: &mut ConditionChanges, reason: &str, message: &str) {
    wishes.set(Condition::new_false(READY, reason, message));
    wishes.set(Condition::new_true(STALLED, reason, message));
}

//! Derives the conditions that the runtime itself sets from how a pass ended.
//!
//! Only the reconcile sets `Ready` to False on observed facts: a failure to observe never does.

use crate::action::Action;
use crate::error::{Error, ErrorClass};

use super::{Condition, ConditionChanges, ConditionStatus, READY, RECONCILING, STALLED};

/// How a pass ended.
#[derive(Clone, Copy, Debug)]
pub enum PassOutcome<'a> {
    /// With an action.
    Action(&'a Action),
    /// With an error.
    Failed(&'a Error),
    /// With one failure too many: it will not run again until its spec changes.
    Quarantined(&'a Error),
}

impl PassOutcome<'_> {
    /// Whether the pass has processed the whole spec.
    pub(crate) fn has_observed_spec(self) -> bool {
        match self {
            Self::Action(_) | Self::Quarantined(_) => true,
            Self::Failed(error) => {
                matches!(error.class(), ErrorClass::Invalid | ErrorClass::Exists)
            }
        }
    }
}

/// The changes of conditions after a pass: those that the reconcile `said`, and those that follow from its
/// outcome and from the previous status of `Ready`. `None` after a conflict, which is unrelated to the
/// state of the object and must not change its status.
#[must_use]
pub fn resolve_conditions(
    said: &ConditionChanges,
    outcome: PassOutcome<'_>,
    was: Option<ConditionStatus>,
) -> Option<ConditionChanges> {
    let mut wishes = said.clone();
    // The reconcile's own Reconciling condition is more specific and is kept.
    if said.get(RECONCILING).is_none() {
        wishes.remove(RECONCILING);
    }
    wishes.remove(STALLED);
    match outcome {
        PassOutcome::Action(verdict) => apply_action(&mut wishes, verdict, was),
        PassOutcome::Failed(error) if error.class() == ErrorClass::Conflict => return None,
        PassOutcome::Failed(error) => apply_error(&mut wishes, error),
        PassOutcome::Quarantined(error) => {
            let message = format!("reconcile keeps failing; stopped until the spec changes: {error}");
            // The object is not checked any more, so an earlier Ready=True may not hold now.
            if wishes.get(READY).is_none_or(|it| it.status == ConditionStatus::True) {
                wishes.set(Condition::new_unknown(READY, "Quarantined", &*message));
            }
            wishes.set(Condition::new_true(STALLED, "Quarantined", message));
        }
    }
    // Every object has a Ready condition from its first pass on.
    if was.is_none() && wishes.get(READY).is_none() {
        wishes.set(initial_ready());
    }
    Some(wishes)
}

fn initial_ready() -> Condition {
    let message = "not verified yet; will check again";
    Condition::new_unknown(READY, "Progressing", message)
}

fn apply_action(wishes: &mut ConditionChanges, verdict: &Action, was: Option<ConditionStatus>) {
    let silent = wishes.get(READY).is_none();
    match verdict {
        Action::Done if silent => {
            wishes.set(Condition::new_true(READY, "Settled", "the object matches its spec"));
        }
        // More work follows, so the object is not ready because of this outcome; an earlier True stays.
        Action::RequeueAfter(_) if silent && was != Some(ConditionStatus::True) => wishes.set(initial_ready()),
        Action::Done | Action::RequeueAfter(_) => {}
        Action::Reject { reason, message } => apply_stalled(wishes, reason, message),
    }
}

fn apply_error(wishes: &mut ConditionChanges, error: &Error) {
    let class = error.class();
    // An error's own text may contain a port, an attempt or a time and would change with each attempt. The
    // server's reasons for a refusal do not change, and they state what to do.
    let refused = error.to_string();
    let waiting = match class {
        ErrorClass::Invalid | ErrorClass::Exists => {
            return apply_stalled(wishes, class.as_str(), &error.to_string());
        }
        ErrorClass::Throttled => "rate limited by an upstream API; will retry",
        ErrorClass::Unavailable => "a service it calls does not respond; will retry",
        ErrorClass::Forbidden => &refused,
        ErrorClass::Missing => "an object it reads does not exist; will retry",
        ErrorClass::Fault | ErrorClass::Conflict => "the last reconcile failed; will retry",
    };
    wishes.set(Condition::new_true(RECONCILING, class.as_str(), waiting));
}

fn apply_stalled(wishes: &mut ConditionChanges, reason: &str, message: &str) {
    wishes.set(Condition::new_false(READY, reason, message));
    wishes.set(Condition::new_true(STALLED, reason, message));
}

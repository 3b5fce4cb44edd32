//! From how a pass ended to the conditions the runtime itself answers for.
//!
//! `Ready` is the reconcile's to prove: a failure to look never makes it False.

use crate::error::{Class, Error};
use crate::verdict::Verdict;

use super::{Condition, READY, RECONCILING, STALLED, Status, Wishes};

/// How a pass ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// With a verdict.
    Verdict(&'a Verdict),
    /// With pushback.
    Failed(&'a Error),
    /// With a defect, once too often: it will not be run again until its spec changes.
    Quarantined(&'a Error),
}

impl Outcome<'_> {
    /// Whether the pass has taken the whole spec into account.
    pub(crate) fn observed(self) -> bool {
        match self {
            Self::Verdict(_) | Self::Quarantined(_) => true,
            Self::Failed(error) => matches!(error.class(), Class::Invalid | Class::Exists),
        }
    }
}

/// What a pass leaves in the conditions: what the reconcile `said`, and what its end adds to that,
/// given what `Ready` was before. `None` after a conflict, which says nothing about the object and
/// must leave no trace in it.
#[must_use]
pub fn conclude(said: &Wishes, outcome: Outcome<'_>, was: Option<Status>) -> Option<Wishes> {
    let mut wishes = said.clone();
    // A reconcile knows better than a verdict what it still waits for.
    if said.get(RECONCILING).is_none() {
        wishes.retract(RECONCILING);
    }
    wishes.retract(STALLED);
    match outcome {
        Outcome::Verdict(verdict) => settle(&mut wishes, verdict, was),
        Outcome::Failed(error) if error.class() == Class::Conflict => return None,
        Outcome::Failed(error) => fail(&mut wishes, error),
        Outcome::Quarantined(error) => {
            let message = format!(
                "its reconcile keeps failing and is stopped until the spec changes: {error}"
            );
            // Nobody looks any more, so what was proven once is not known now.
            if wishes.get(READY).is_none_or(|it| it.status == Status::True) {
                wishes.set(Condition::unknown(READY, "Quarantined", &*message));
            }
            wishes.set(Condition::yes(STALLED, "Quarantined", message));
        }
    }
    // Every object says something of its readiness, from its first pass on.
    if was.is_none() && wishes.get(READY).is_none() {
        wishes.set(unproven());
    }
    Some(wishes)
}

fn unproven() -> Condition {
    let message = "not proven yet; it is looked at again";
    Condition::unknown(READY, "Progressing", message)
}

fn settle(wishes: &mut Wishes, verdict: &Verdict, was: Option<Status>) {
    let silent = wishes.get(READY).is_none();
    match verdict {
        Verdict::Settled if silent => {
            wishes.set(Condition::yes(
                READY,
                "Settled",
                "everything is as the spec asks",
            ));
        }
        // Something is still to come, so it is not ready by that alone; a proof given stays.
        Verdict::Recheck(_) if silent && was != Some(Status::True) => wishes.set(unproven()),
        Verdict::Settled | Verdict::Recheck(_) => {}
        Verdict::Blocked { reason, message } => {
            wishes.set(Condition::no(READY, reason, message));
        }
        Verdict::Rejected { reason, message } => stall(wishes, reason, message),
    }
}

fn fail(wishes: &mut Wishes, error: &Error) {
    let class = error.class();
    // An error's own text may name a port, an attempt or a time: it would change with each try. The
    // server's reasons for a refusal do not, and only they say what is to be done.
    let refused = error.to_string();
    let waiting = match class {
        Class::Invalid | Class::Exists => {
            return stall(wishes, class.word(), &error.to_string());
        }
        Class::Throttled => "an API it calls allows no more calls for now; it is tried again",
        Class::Unavailable => "something it calls does not answer; it is tried again",
        Class::Forbidden => &refused,
        Class::Missing => "something it reads is not there; it is tried again",
        Class::Fault | Class::Conflict => "the last pass failed; it is tried again",
    };
    wishes.set(Condition::yes(RECONCILING, class.word(), waiting));
}

fn stall(wishes: &mut Wishes, reason: &str, message: &str) {
    wishes.set(Condition::no(READY, reason, message));
    wishes.set(Condition::yes(STALLED, reason, message));
}

//! What a key's past runs mean for its next one. Pure: outcomes in, the next obligation out.
//!
//! Dropped with the key. Conflicts have a streak of their own and never touch the backoff.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::contest::Contest;
use super::options::Options;
use crate::backoff::{Backoff, Curves};
use crate::error::{Class, Error};
use crate::key::Key;
use crate::queue::{Cause, Hold, Lane, Next, Reason};
use crate::verdict::Verdict;

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// There is no such object any more, or it goes without us.
    Gone,
    /// The reconcile returned a verdict and what it wanted written was written.
    Ended(Verdict),
    /// The reconcile or a write met pushback.
    Failed(Error),
}

/// What else is known of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Whether an event or a timer started it.
    pub(crate) by: Cause,
    /// How long it took.
    pub(crate) took: Duration,
    /// Whether one of its writes was accepted.
    pub(crate) wrote: bool,
    /// How long until the budget that refused a call opens again.
    pub(crate) closed_for: Option<Duration>,
    /// When it ended, since the engine's start.
    pub(crate) now: Duration,
}

/// What follows from a run.
#[derive(Debug)]
pub(crate) struct Sequel {
    /// For the queue.
    pub(crate) next: Next,
    /// The conflict to be waited out, if there was one.
    pub(crate) contest: Option<Contest>,
}

/// A key's past.
#[derive(Debug)]
pub(crate) struct History {
    backoff: Backoff,
    conflicts: u32,
    faults: u32,
    quarantined_until: Duration,
    phase: u64,
    rng: fastrand::Rng,
}

impl History {
    /// A key that has not run yet. Jitter and phase follow from its name, so that they are the same
    /// after a restart and differ between keys.
    pub(crate) fn new(key: &Key, curves: Arc<Curves>) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self {
            backoff: Backoff::new(curves),
            conflicts: 0,
            faults: 0,
            quarantined_until: Duration::ZERO,
            phase: hasher.finish(),
            rng: fastrand::Rng::with_seed(hasher.finish()),
        }
    }

    /// How often in a row the key has ended with an error of `class`.
    pub(crate) fn in_a_row(&self, class: Class) -> u32 {
        match class {
            Class::Conflict => self.conflicts,
            Class::Fault => self.faults,
            class => self.backoff.failures(class),
        }
    }

    /// Whether nothing is held against the key, so that its past need not be kept.
    pub(crate) fn is_clear(&self) -> bool {
        self.conflicts == 0 && self.faults == 0 && self.backoff.is_clear()
    }

    /// Whether the key is in quarantine.
    pub(crate) fn quarantined(&self, now: Duration) -> bool {
        now < self.quarantined_until
    }

    /// Whether the fault that is being handled is one too many.
    pub(crate) fn quarantines(&self, class: Class, options: &Options) -> bool {
        class == Class::Fault && self.faults + 1 >= options.quarantine_after
    }

    /// Takes a run into account and says what follows.
    pub(crate) fn follow(&mut self, outcome: &Outcome, facts: Facts, options: &Options) -> Sequel {
        let conflict =
            matches!(outcome, Outcome::Failed(error) if error.class() == Class::Conflict);
        if facts.wrote {
            // A pass that writes one object and loses on another is still losing.
            self.conflicts = if conflict { self.conflicts } else { 0 };
            self.backoff.succeeded(Class::Invalid);
            self.backoff.succeeded(Class::Exists);
        }
        match outcome {
            Outcome::Gone => Sequel::of(Next::Idle),
            Outcome::Ended(verdict) => {
                self.conflicts = 0;
                self.faults = 0;
                self.quarantined_until = Duration::ZERO;
                self.backoff.clear();
                Sequel::of(self.after(verdict, facts.now, options))
            }
            Outcome::Failed(error) if conflict => self.conflict(error, facts, options),
            Outcome::Failed(error) => Sequel::of(self.failure(error.class(), facts, options)),
        }
    }

    fn after(&self, verdict: &Verdict, now: Duration, options: &Options) -> Next {
        let resync = options.resync.map(|every| self.resync(now, every));
        match (verdict, resync) {
            (Verdict::Recheck(after), _) => Next::At {
                due: now.saturating_add(*after),
                lane: Lane::Input,
                reason: Reason::Recheck,
                hold: Hold::Open,
            },
            (_, Some(due)) => Next::At {
                due,
                lane: Lane::Resync,
                reason: Reason::Resync,
                hold: Hold::Open,
            },
            (_, None) => Next::Idle,
        }
    }

    /// The next moment of this key's own phase, so that periodic work is spread and stays spread.
    fn resync(&self, now: Duration, every: Duration) -> Duration {
        let every = every.as_nanos().max(1);
        let phase = u128::from(self.phase) % every;
        let since = (now.as_nanos() + every - phase) % every;
        now + Duration::from_nanos(u64::try_from(every - since).unwrap_or(u64::MAX))
    }

    fn conflict(&mut self, error: &Error, facts: Facts, options: &Options) -> Sequel {
        self.conflicts += 1;
        let (object, read) = match error.object() {
            Some((object, read)) => (Some(object.clone()), read.clone()),
            None => (None, None),
        };
        let contest = Contest::new(object, read, self.conflicts, facts.now, facts.took);
        Sequel {
            next: Next::At {
                due: contest.resume(options.conflict),
                lane: Lane::Input,
                reason: Reason::Retry(Class::Conflict),
                hold: Hold::Shut,
            },
            contest: Some(contest),
        }
    }

    fn failure(&mut self, class: Class, facts: Facts, options: &Options) -> Next {
        let mut due = self
            .backoff
            .failed(class, facts.by, facts.now, &mut self.rng);
        if class == Class::Fault {
            self.faults += 1;
            due = due.max(self.quarantine(facts, options));
        }
        if let Some(closed) = facts.closed_for {
            due = due.max(facts.now.saturating_add(closed));
        }
        Next::At {
            due,
            lane: Lane::Retry,
            reason: Reason::Retry(class),
            hold: Hold::Once,
        }
    }

    /// The end of the quarantine; an event that runs the key inside it does not prolong it.
    fn quarantine(&mut self, facts: Facts, options: &Options) -> Duration {
        let inside = facts.by == Cause::Event && facts.now < self.quarantined_until;
        if self.faults >= options.quarantine_after && !inside {
            self.quarantined_until = facts.now.saturating_add(options.quarantine);
        }
        self.quarantined_until
    }
}

impl Sequel {
    fn of(next: Next) -> Self {
        Self {
            next,
            contest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn facts(by: Cause, now: Duration) -> Facts {
        Facts {
            by,
            took: Duration::from_millis(10),
            wrote: false,
            closed_for: None,
            now,
        }
    }

    fn history() -> History {
        History::new(&Key::new(Some("default"), "a"), Arc::default())
    }

    fn failed(class: Class) -> Outcome {
        Outcome::Failed(Error::new(class, "no"))
    }

    fn due(sequel: &Sequel) -> Duration {
        match sequel.next {
            Next::At { due, .. } => due,
            Next::Idle | Next::Keep => panic!("{sequel:?} has no time"),
        }
    }

    #[test]
    fn conflicts_never_advance_the_failure_backoff() {
        let (mut history, options) = (history(), Options::default());
        for number in 0..1_000 {
            let now = secs(number);
            let sequel = history.follow(&failed(Class::Conflict), facts(Cause::Due, now), &options);
            assert!(sequel.contest.is_some());
            assert!(due(&sequel) <= now + options.conflict.limit);
        }
        for class in Class::ALL
            .into_iter()
            .filter(|class| *class != Class::Conflict)
        {
            assert_eq!(history.in_a_row(class), 0, "{class:?}");
        }
    }

    #[test]
    fn a_conflict_does_not_make_a_failing_key_look_well() {
        let (mut history, options) = (history(), Options::default());
        history.follow(
            &failed(Class::Unavailable),
            facts(Cause::Due, secs(1)),
            &options,
        );
        history.follow(
            &failed(Class::Conflict),
            facts(Cause::Due, secs(2)),
            &options,
        );
        assert_eq!(history.in_a_row(Class::Unavailable), 1);
    }

    #[test]
    fn a_quarantine_is_not_prolonged_by_events_and_ends_with_a_success() {
        let (mut history, options) = (history(), Options::default());
        for number in 1..=5 {
            history.follow(
                &failed(Class::Fault),
                facts(Cause::Due, secs(number)),
                &options,
            );
        }
        assert!(history.quarantined(secs(6)));
        let sequel = history.follow(
            &failed(Class::Fault),
            facts(Cause::Event, secs(100)),
            &options,
        );
        assert_eq!(due(&sequel), secs(5) + options.quarantine);
        history.follow(
            &Outcome::Ended(Verdict::Settled),
            facts(Cause::Event, secs(101)),
            &options,
        );
        assert!(history.is_clear() && !history.quarantined(secs(101)));
    }

    #[test]
    fn a_closed_budget_is_waited_for_to_the_end() {
        let (mut history, options) = (history(), Options::default());
        let facts = Facts {
            closed_for: Some(secs(300)),
            ..facts(Cause::Event, secs(10))
        };
        assert_eq!(
            due(&history.follow(&failed(Class::Throttled), facts, &options)),
            secs(310)
        );
    }

    #[test]
    fn resyncs_keep_to_the_phase_of_the_key() {
        let mut history = history();
        let options = Options {
            resync: Some(secs(60)),
            ..Options::default()
        };
        let mut next = |now| {
            let ended = Outcome::Ended(Verdict::Settled);
            due(&history.follow(&ended, facts(Cause::Due, now), &options))
        };
        let first = next(secs(0));
        assert!(first > secs(0) && first <= secs(60));
        assert_eq!(next(first), first + secs(60));
        assert_eq!(next(first + secs(7)), first + secs(60));
    }
}

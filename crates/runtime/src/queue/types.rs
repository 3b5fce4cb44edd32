//! The types of the queue's interface: its parameters, lanes, reasons, dispatches and results.

use std::fmt;
use std::time::Duration;

use crate::error::ErrorClass;
use crate::queue::LaneRate;

/// The lanes of the queue, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// A user created the object, changed its spec or requested its deletion.
    Edit,
    /// A child or another input changed.
    Input,
    /// A retry after a failure is due.
    Retry,
    /// No change is known: a restart or a periodic resync.
    Resync,
}

impl Lane {
    /// Every lane, most urgent first.
    pub const ALL: [Self; 4] = [Self::Edit, Self::Input, Self::Retry, Self::Resync];

    /// The word in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Input => "input",
            Self::Retry => "retry",
            Self::Resync => "resync",
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// The reason of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RunReason {
    /// The object was created, or seen for the first time and not yet handled.
    Created,
    /// The part of the object that its lens passes changed.
    Changed,
    /// Its deletion was requested, or it was deleted.
    Deleted,
    /// An object of this kind that maps to it changed, or this source triggered it.
    Input(&'static str),
    /// A retry after a failure of this class is due.
    Retry(ErrorClass),
    /// The reconcile requested another run.
    Recheck,
    /// A restart, a relist or a periodic resync.
    Resync,
}

impl RunReason {
    /// The class of the failure that is retried, if any.
    pub(super) const fn class(self) -> Option<ErrorClass> {
        match self {
            Self::Retry(class) => Some(class),
            _ => None,
        }
    }
}

impl fmt::Display for RunReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("Created"),
            Self::Changed => f.write_str("Changed"),
            Self::Deleted => f.write_str("Deleted"),
            Self::Input(kind) => write!(f, "Input({kind})"),
            Self::Retry(class) => write!(f, "Retry({})", class.as_str()),
            Self::Recheck => f.write_str("Recheck"),
            Self::Resync => f.write_str("Resync"),
        }
    }
}

/// Why a key was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunCause {
    /// An event, and no scheduled run was due. A failure of such a run does not count for the
    /// key's backoff.
    Event,
    /// A scheduled run came due, or its wait was ended by a release.
    Due,
}

/// How a waiting key handles an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitPolicy {
    /// The event runs the key at once.
    AnyEvent,
    /// The event runs the key at once, but only the first before the key is due: later events are kept for
    /// the run that is due. That run or a release allows one more.
    OneEvent,
    /// The event is kept for the run that is due, or for the release.
    NoEvent,
}

/// The schedule of a key after its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    /// Nothing, until an event.
    Idle,
    /// It runs again at `due`, or when an event does it sooner.
    Scheduled {
        /// Since the start of the engine, like all times of the queue.
        due: Duration,
        /// The lane it is then queued in.
        lane: Lane,
        /// The reason of that run.
        reason: RunReason,
        /// How an event before that is handled.
        hold: WaitPolicy,
    },
}

/// Identifies one run of one key. A ticket of a run that has ended is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunTicket {
    pub(super) slot: u32,
    pub(super) run: u64,
}

/// A key to run now.
#[derive(Clone, Debug)]
pub struct Dispatch<K> {
    /// To be returned when the run ends.
    pub ticket: RunTicket,
    /// The key.
    pub key: K,
    /// The most urgent lane it was queued in.
    pub lane: Lane,
    /// Every reason since its last run began.
    pub reasons: RunReasons,
    /// Time since the first event that this run serves.
    pub waited: Duration,
    /// Why it was queued.
    pub by: RunCause,
}

/// How many reasons are kept for one run. More are counted, not kept: the reconcile reads the
/// whole object anyway.
const MAX_REASONS: usize = 8;

/// The reasons of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReasons {
    // Most runs have one reason, which needs no allocation.
    first: Option<RunReason>,
    overflow: Option<Box<More>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct More {
    reasons: Vec<RunReason>,
    omitted: u32,
}

impl RunReasons {
    /// The reasons, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = RunReason> + '_ {
        let more = self.overflow.iter().flat_map(|more| &more.reasons);
        self.first.iter().chain(more).copied()
    }

    /// Whether `reason` is among them.
    #[must_use]
    pub fn contains(&self, reason: RunReason) -> bool {
        self.iter().any(|known| known == reason)
    }

    /// The number of reasons.
    #[must_use]
    pub fn len(&self) -> usize {
        let more = self.overflow.as_ref().map_or(0, |more| more.reasons.len());
        usize::from(self.first.is_some()) + more
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many events were left out because the set was full.
    #[must_use]
    pub fn omitted(&self) -> u32 {
        self.overflow.as_ref().map_or(0, |more| more.omitted)
    }

    #[inline]
    pub(super) fn add(&mut self, reason: RunReason) {
        if self.first.is_none() {
            self.first = Some(reason);
            return;
        }
        if self.contains(reason) {
            return;
        }
        let more = self.overflow.get_or_insert_default();
        // `first` is one of the kept reasons.
        if more.reasons.len() + 1 < MAX_REASONS {
            more.reasons.push(reason);
        } else {
            more.omitted = more.omitted.saturating_add(1);
        }
    }
}

impl fmt::Display for RunReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, reason) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{reason}")?;
        }
        match self.omitted() {
            0 => Ok(()),
            more => write!(f, ",+{more}"),
        }
    }
}

/// The parameters of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// Its share of dispatches when every lane has work. A lane of weight zero is served only by its
    /// bound, or when no lane with a weight has work.
    pub weight: u32,
    /// How long the lane may go unserved while it has work. `None`: without limit.
    pub bound: Option<Duration>,
    /// Its maximum rate.
    pub pace: Option<LaneRate>,
}

/// The parameters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Lane [`Lane::Edit`]: a user waits for the result.
    pub edit: LaneConfig,
    /// Lane [`Lane::Input`].
    pub input: LaneConfig,
    /// Lane [`Lane::Retry`].
    pub retry: LaneConfig,
    /// Lane [`Lane::Resync`]: no user waits for the result, so it is paced.
    pub resync: LaneConfig,
}

impl QueueConfig {
    /// The parameters of `lane`.
    #[must_use]
    pub const fn lane(&self, lane: Lane) -> &LaneConfig {
        match lane {
            Lane::Edit => &self.edit,
            Lane::Input => &self.input,
            Lane::Retry => &self.retry,
            Lane::Resync => &self.resync,
        }
    }
}

/// A hundred resyncs per second after a burst of ten: after a restart, 10,000 converged objects are
/// reconciled over 100 s, one every ten milliseconds, while everything else is served at once. A
/// reconcile that changes nothing costs the API server nothing, so this limits only our own CPU and
/// external reads.
impl Default for QueueConfig {
    fn default() -> Self {
        let lane = |weight, seconds, pace| LaneConfig {
            weight,
            bound: Some(Duration::from_secs(seconds)),
            pace,
        };
        let slow = LaneRate {
            per_second: 100,
            burst: 10,
        };
        Self {
            edit: lane(8, 1, None),
            input: lane(4, 5, None),
            retry: lane(2, 15, None),
            resync: lane(1, 60, Some(slow)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_kept_once_and_in_order() {
        let mut reasons = RunReasons::default();
        for reason in [RunReason::Changed, RunReason::Input("Pod"), RunReason::Changed] {
            reasons.add(reason);
        }
        assert_eq!(reasons.to_string(), "Changed,Input(Pod)");
    }

    #[test]
    fn reasons_past_the_eighth_are_counted() {
        let kinds = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let mut reasons = RunReasons::default();
        for kind in kinds {
            reasons.add(RunReason::Input(kind));
        }
        assert_eq!((reasons.len(), reasons.omitted()), (8, 2));
        assert!(reasons.to_string().ends_with(",Input(h),+2"));
    }
}

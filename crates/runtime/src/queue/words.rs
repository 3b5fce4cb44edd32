//! The types of the queue's interface: lanes, reasons, dispatches and results.

use std::fmt;
use std::time::Duration;

use super::RunReasons;
use crate::error::ErrorClass;

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
    /// The schedule from before this run is kept: the run gave no result.
    Keep,
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

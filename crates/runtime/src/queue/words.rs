//! The words of the queue: lanes, reasons, what is handed out and what is handed back.

use std::fmt;
use std::time::Duration;

use super::RunReasons;
use crate::error::ErrorClass;

/// The lanes of the queue, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// A person created the object, changed its spec or asked for its deletion.
    Edit,
    /// A child or another input changed.
    Input,
    /// Something that failed is due again.
    Retry,
    /// Nothing is known to have changed: a restart, a periodic look.
    Resync,
}

impl Lane {
    /// Every lane, most urgent first.
    pub const ALL: [Self; 4] = [Self::Edit, Self::Input, Self::Retry, Self::Resync];

    /// The word that metrics and logs use.
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

/// Why a key is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RunReason {
    /// The object was created, or seen for the first time and not yet handled.
    Created,
    /// The part of the object its lens shows changed.
    Changed,
    /// Its deletion was asked for, or it is gone.
    Deleted,
    /// An object of this kind that maps to it changed, or this source poked it.
    Input(&'static str),
    /// A failure of this class is due again.
    Retry(ErrorClass),
    /// The reconcile asked to look again.
    Recheck,
    /// A restart, a relist or the periodic look.
    Resync,
}

impl RunReason {
    /// The class of the failure behind it, if that is what it is.
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

/// What put a key in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunCause {
    /// An event, and nothing the key had still to do was due. A failure of such a run is not held
    /// against the key's backoff.
    Event,
    /// What the key had to do came due, or its wait was ended by a release.
    Due,
}

/// What an event does to a key that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitPolicy {
    /// It runs the key at once.
    AnyEvent,
    /// It runs the key at once, but only once before the key is due: the next events are kept for
    /// the run that is due. The allowance is renewed by the run that is due, or by a release.
    OneEvent,
    /// It is kept for the run that is due, or for the release.
    NoEvent,
}

/// What becomes of a key whose run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    /// Nothing, until an event.
    Idle,
    /// What the key had to do before this run still stands: the run gave no answer.
    Keep,
    /// It runs again at `due`, or when an event does it sooner.
    Scheduled {
        /// Since the start of the engine, as every time of the queue.
        due: Duration,
        /// The lane it is then queued in.
        lane: Lane,
        /// Why it then runs.
        reason: RunReason,
        /// What an event does before that.
        hold: WaitPolicy,
    },
}

/// One run of one key. A ticket of a run that is over is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunTicket {
    pub(super) slot: u32,
    pub(super) run: u64,
}

/// A key to run now.
#[derive(Clone, Debug)]
pub struct Dispatch<K> {
    /// To hand back when the run is over.
    pub ticket: RunTicket,
    /// The key.
    pub key: K,
    /// The most urgent lane it was queued in.
    pub lane: Lane,
    /// Every reason since its last run began.
    pub reasons: RunReasons,
    /// Since the first event that this run serves.
    pub waited: Duration,
    /// What put it in line.
    pub by: RunCause,
}

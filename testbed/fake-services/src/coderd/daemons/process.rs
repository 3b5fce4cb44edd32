//! One daemon's process: its session, its job, and what is due for it next.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Daemon, Row, Work};
use crate::coderd::store::Store;

/// First and longest wait between two attempts to connect.
pub(super) const FIRST_DIAL: Duration = Duration::from_millis(50);
const LONGEST_DIAL: Duration = Duration::from_secs(10);

/// What is next for a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    JobEnds,
    GraceEnds,
    JobBegins,
    Dials,
    Beats,
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) secret_sha256: String,
    pub(super) session: Session,
    pub(super) job: Option<Timestamp>,
    pub(super) next_job: Option<Timestamp>,
    pub(super) work: Option<Work>,
    /// Until when it may finish what it does.
    pub(super) stopping: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(super) enum Session {
    /// Connected with the key of this id and name.
    Open {
        key: String,
        key_name: String,
        beat: Timestamp,
    },
    Dialling {
        at: Timestamp,
        refused: u64,
    },
}

impl Process {
    /// When something is due, and what. A job comes before a heartbeat of the same moment.
    pub(super) fn next(&self) -> (Timestamp, Next) {
        let session = match self.session {
            Session::Open { beat, .. } => (beat, Next::Beats),
            Session::Dialling { at, .. } => (at, Next::Dials),
        };
        let begins = self.next_job.filter(|_| self.job.is_none());
        let others = [
            self.job.map(|at| (at, Next::JobEnds)),
            self.stopping.map(|at| (at, Next::GraceEnds)),
            begins.map(|at| (at, Next::JobBegins)),
        ];
        others.into_iter().flatten().fold(session, Ord::min)
    }

    pub(super) fn has(&self, id: &str) -> bool {
        matches!(&self.session, Session::Open { key, .. } if key == id)
    }

    pub(super) fn has_key_in(&self, store: &Store) -> bool {
        store.keys.iter().any(|key| self.has(&key.id))
    }

    pub(super) fn refuse(&mut self, now: Timestamp) {
        if let Session::Dialling { at, refused } = &mut self.session {
            *refused += 1;
            let doublings = u32::try_from(*refused).unwrap_or(u32::MAX).min(16);
            let wait = FIRST_DIAL.saturating_mul(1 << doublings);
            *at = later(now, wait.min(LONGEST_DIAL));
        }
    }

    pub(super) fn shown(&self, id: u64, row: Option<&Row>) -> Daemon {
        let (key, refused) = match &self.session {
            Session::Open { key_name, .. } => (Some(key_name.clone()), 0),
            Session::Dialling { refused, .. } => (None, *refused),
        };
        Daemon {
            id,
            name: self.name.clone(),
            connected: key.is_some(),
            key,
            busy: self.job.is_some(),
            last_seen: row.map(|row| row.seen),
            refused,
        }
    }
}

pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

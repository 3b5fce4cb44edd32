//! The only way to write: skips writes that change nothing, and records those that are sent.
//!
//! All writes use one field manager per controller, so that conflicts are rare and our own
//! changes can be distinguished from others. Objects in a cache are not read again,
//! nothing is sent without the lease, and nothing is retried.

mod answer;
mod apply;
mod children;
mod converged;
mod create;
mod desired;
mod finalizer;
mod kind;
mod known;
mod memory;
#[cfg(test)]
mod oracle_tests;
mod pass;
mod relabel;
mod removal;
mod report;
mod rights;
mod send;
mod status;

use std::fmt;
use std::sync::Arc;

use crate::clock::Clock;
use crate::fence::Fence;
use crate::journal::Journal;
use crate::key::{ObjectKey, ObjectRef};
use crate::telemetry::Telemetry;

/// The verbs of writes in metrics and the journal.
pub(crate) const VERBS: [&str; 7] = ["apply", "create", "delete", "finalizer", "relabel", "report", "status"];

pub use self::apply::{ApplyEffect, ApplyResult};
pub use self::known::{InFlightWrite, LiveObjects};
pub use self::pass::{Pass, PassOwner};
pub use self::relabel::MetadataPatch;

/// Writes on behalf of one controller. Clones share their records.
#[derive(Clone)]
pub struct Writer(Arc<Inner>);

struct Inner {
    client: kube::Client,
    manager: Arc<str>,
    fence: Fence,
    telemetry: Telemetry,
    clock: Clock,
    memory: memory::AppliedMemo,
    children: children::Children,
    suppress: bool,
}

impl Writer {
    /// A writer with the field manager `manager` that acts only while `fence` is open.
    #[must_use]
    pub fn new(client: kube::Client, manager: &str, fence: Fence, telemetry: Telemetry, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            client,
            manager: manager.into(),
            fence,
            telemetry,
            clock,
            memory: memory::AppliedMemo::default(),
            children: children::Children::default(),
            suppress: true,
        }))
    }

    /// A writer like this one that sends every write, even if it would change nothing.
    #[must_use]
    pub fn without_suppression(&self) -> Self {
        let inner = &self.0;
        Self(Arc::new(Inner {
            client: inner.client.clone(),
            manager: inner.manager.clone(),
            fence: inner.fence.clone(),
            telemetry: inner.telemetry.clone(),
            clock: inner.clock.clone(),
            memory: memory::AppliedMemo::default(),
            children: children::Children::default(),
            suppress: false,
        }))
    }

    /// The field manager.
    #[must_use]
    pub fn manager(&self) -> &str {
        &self.0.manager
    }

    /// Begins one pass over `owner`; writes are recorded in `journal`.
    #[must_use]
    pub fn pass(&self, owner: PassOwner, journal: Journal) -> Pass {
        Pass::new(self.clone(), owner, journal)
    }

    /// Drops the records of a deleted object.
    pub fn on_deleted(&self, object: &ObjectRef) {
        self.0.memory.remove(object);
    }

    /// Drops the records of the children of a deleted owner.
    pub(crate) fn on_owner_deleted(&self, owner: &ObjectKey) {
        self.0.children.remove(owner);
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("manager", &self.0.manager)
            .finish_non_exhaustive()
    }
}

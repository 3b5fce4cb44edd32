//! A reader's place in the log of one resource: how a watch follows it.
//!
//! A cursor pulls; nothing is buffered for it. One that is so slow that the window has passed it is
//! cut, as the server cuts a watcher whose buffer is full. Dropping it is all there is to stopping.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::{Change, Store};
use crate::status::GroupResource;

/// How many writes one step hands out, so that a long log does not become one long copy.
const BATCH: usize = 64;

/// A place in the log of a resource.
#[derive(Debug)]
pub struct Cursor {
    store: Store,
    resource: GroupResource,
    seen: u64,
    epoch: u64,
    wake: Arc<Notify>,
}

/// What a cursor finds.
#[derive(Debug)]
pub enum Next {
    /// Writes it has not seen, oldest first.
    Changes(Vec<Arc<Change>>),
    /// Nothing now: everything up to this revision has been seen. The future wakes on the next write.
    Idle(u64, Pin<Box<OwnedNotified>>),
    /// The window has passed it, or the server has restarted: the watch ends.
    Cut,
}

impl Cursor {
    pub(super) fn new(
        store: Store,
        resource: GroupResource,
        seen: u64,
        epoch: u64,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            store,
            resource,
            seen,
            epoch,
            wake,
        }
    }

    /// The revision up to which this reader has seen everything.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes the next writes.
    pub fn advance(&mut self) -> Next {
        let state = self.store.lock();
        let Some(table) = state.tables.get(&self.resource) else {
            return Next::Cut;
        };
        if table.epoch != self.epoch || self.seen < table.dropped {
            return Next::Cut;
        }
        let changes = table.since(self.seen, BATCH);
        if let Some(last) = changes.last() {
            self.seen = last.revision;
            return Next::Changes(changes);
        }
        // Made under the lock that writers ring the bell under, so that none is slept through.
        Next::Idle(
            state.revision.max(self.seen),
            Box::pin(self.wake.clone().notified_owned()),
        )
    }
}

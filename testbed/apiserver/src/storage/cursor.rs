//! A reader's place in the log of one resource: how a watch follows it.
//!
//! A cursor pulls; nothing is buffered for it. One that is so slow that the window has passed it is
//! cut, as the server cuts a watcher whose buffer is full. Dropping it is all there is to stopping.

use std::pin::Pin;
use std::sync::Arc;

use aplomb_apimachinery::status::GroupResource;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::{Change, Store};

/// How many writes one step hands out, so that a long log does not become one long copy.
const BATCH: usize = 64;

/// A place in the log of a resource.
#[derive(Debug)]
pub struct Cursor {
    store: Store,
    resource: GroupResource,
    seen: u64,
    /// The revision of the store when the watch began.
    began: u64,
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
        (seen, began): (u64, u64),
        epoch: u64,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            store,
            resource,
            seen,
            began,
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
        let behind = table.count_since(self.seen.max(self.began));
        let passed = self.seen < table.dropped || behind > self.store.window.behind;
        if table.epoch != self.epoch || passed {
            return Next::Cut;
        }
        // Made before looking, so that no bell is slept through: it rings after there is more to see.
        let woken = Box::pin(self.wake.clone().notified_owned());
        let last = state.durable().min(state.revision);
        let changes = table.since(self.seen, last, BATCH);
        if let Some(newest) = changes.last() {
            self.seen = newest.revision;
            return Next::Changes(changes);
        }
        Next::Idle(last.max(self.seen), woken)
    }
}

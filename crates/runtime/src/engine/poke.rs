//! A way to run a key for something that no watch shows: a probe that failed, a message that came.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::desk::WorkQueue;
use crate::key::ObjectKey;
use crate::queue::{Lane, RunReason};

/// Runs keys of the controller that is poked by it. Clones are the same.
#[derive(Clone, Default)]
pub struct Trigger(Arc<OnceLock<(Arc<WorkQueue>, &'static str)>>);

impl Trigger {
    /// Runs `key` as if an input of it had changed. Nothing happens before the engine is put together,
    /// nor for a key without an object.
    pub fn enqueue(&self, key: &ObjectKey) {
        if let Some((desk, source)) = self.0.get() {
            desk.push(key, Lane::Input, RunReason::Input(source));
        }
    }

    /// The first controller stays: another needs a poke of its own.
    pub(super) fn connect(&self, desk: &Arc<WorkQueue>, source: &'static str) {
        drop(self.0.set((desk.clone(), source)));
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poke")
    }
}

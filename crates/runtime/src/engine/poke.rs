//! Runs a key for an event outside any watch: a probe that failed, a message that arrived.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::desk::WorkQueue;
use crate::key::ObjectKey;
use crate::queue::{Lane, RunReason};

/// Runs keys of the controller that it is connected to. Clones are equivalent.
#[derive(Clone, Default)]
pub struct Trigger(Arc<OnceLock<(Arc<WorkQueue>, &'static str)>>);

impl Trigger {
    /// Runs `key` as if one of its inputs had changed. Does nothing before the engine is assembled
    /// or for a key without an object.
    pub fn enqueue(&self, key: &ObjectKey) {
        if let Some((desk, source)) = self.0.get() {
            desk.push(key, Lane::Input, RunReason::Input(source));
        }
    }

    /// The first controller is kept: another controller needs its own trigger.
    pub(super) fn connect(&self, desk: &Arc<WorkQueue>, source: &'static str) {
        drop(self.0.set((desk.clone(), source)));
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poke")
    }
}

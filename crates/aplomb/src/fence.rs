//! The right to act: checked before every effect, lost the moment a lease can no longer be proven.
//!
//! Judged on the monotonic clock of this process alone; nothing here reads wall time.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::error::{Class, Error, Result};

/// A handle on the right to act. Clones share it.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    Until(Instant),
    Shut,
}

impl Fence {
    /// A fence for a process that shares its work with nobody.
    #[must_use]
    pub fn open() -> Self {
        Self(Arc::new(Mutex::new(State::Open)))
    }

    /// A fence that lets nothing through until a lease is held.
    #[must_use]
    pub fn shut() -> Self {
        Self(Arc::new(Mutex::new(State::Shut)))
    }

    /// The lease is ours until `deadline`, counted from before the renewal was sent.
    pub fn hold_until(&self, deadline: Instant) {
        self.set(State::Until(deadline));
    }

    /// The lease is lost or given up.
    pub fn close(&self) {
        self.set(State::Shut);
    }

    /// Whether an effect may be started now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open => true,
            State::Until(deadline) => Instant::now() < deadline,
            State::Shut => false,
        }
    }

    /// Refuses an effect that may no longer be started.
    pub fn check(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        Err(Error::new(
            Class::Unavailable,
            "this replica does not hold the lease",
        ))
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

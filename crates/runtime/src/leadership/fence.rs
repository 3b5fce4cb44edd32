//! The right to act: checked before every effect, lost as soon as the lease may have expired.
//!
//! It uses only the monotonic clock of this process, not wall time. A check decides
//! whether an effect may start; only a [`FenceGuard`] checked afterwards shows whether the right was
//! held throughout, because a process may pause for minutes between a check and its effect.
//!
//! A paused process is covered. A suspended machine is not if its monotonic clock stops with it, as on
//! Linux. In that case only the server's own check of versions protects.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ErrorClass, Result};

/// A handle on the right to act. Clones share it.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Wakes waiting effects when the right ends early.
    closed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// How often the right was gained again. Within one term it was held without a gap.
    term: u64,
    right: Right,
}

#[derive(Clone, Copy, Debug)]
enum Right {
    Open,
    HeldUntil(Instant),
    Closed,
}

impl Right {
    fn holds(self, now: Instant) -> bool {
        match self {
            Self::Open => true,
            Self::HeldUntil(deadline) => now < deadline,
            Self::Closed => false,
        }
    }
}

impl Fence {
    /// A fence for a process without leader election: always open.
    #[must_use]
    pub fn always_open() -> Self {
        Self::with_right(Right::Open)
    }

    /// A fence that is closed until a lease is held.
    #[must_use]
    pub fn closed() -> Self {
        Self::with_right(Right::Closed)
    }

    fn with_right(right: Right) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State { term: 0, right }),
            closed: Notify::new(),
        }))
    }

    /// The lease is held until `deadline`, counted from before the renewal was sent. After any gap
    /// a new term begins.
    pub fn extend_until(&self, deadline: Instant) {
        let now = Instant::now();
        self.update(|state| {
            if !state.right.holds(now) {
                state.term += 1;
            }
            state.right = Right::HeldUntil(deadline);
        });
    }

    /// The lease is lost or released.
    pub fn revoke(&self) {
        self.update(|state| state.right = Right::Closed);
        self.0.closed.notify_waiters();
    }

    /// Whether an effect may start now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state().right.holds(Instant::now())
    }

    /// How often the right was gained again. Other replicas may have acted between two terms.
    pub(crate) fn term(&self) -> u64 {
        self.state().term
    }

    /// To be taken before an effect and checked after it. An error if the effect may not start.
    pub fn guard(&self) -> Result<FenceGuard> {
        let state = self.state();
        if state.right.holds(Instant::now()) {
            return Ok(FenceGuard {
                fence: self.clone(),
                term: state.term,
            });
        }
        Err(Error::new(
            ErrorClass::Unavailable,
            "this replica does not hold the leader lease",
        ))
    }

    fn state(&self) -> State {
        *self.0.state.lock()
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock());
    }
}

/// The right to act as it was before an effect.
#[derive(Clone, Debug)]
pub struct FenceGuard {
    fence: Fence,
    term: u64,
}

impl FenceGuard {
    /// Whether the right has been held without a gap since this guard was taken. If not, the
    /// effect is stale: another replica may have acted in between, and its change may be overwritten.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let state = self.fence.state();
        state.term == self.term && state.right.holds(Instant::now())
    }

    /// When the right ends unless it is renewed: the longest time that a call should wait.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.fence.state().right {
            Right::HeldUntil(deadline) => Some(deadline),
            Right::Open | Right::Closed => None,
        }
    }

    /// Returns when the right has ended, at its deadline or before: pending calls are then not worth
    /// waiting for.
    pub(crate) async fn until_lost(&self) {
        loop {
            let mut closed = std::pin::pin!(self.fence.0.closed.notified());
            // Registered before the check, so that a later close is not missed.
            closed.as_mut().enable();
            if !self.is_held() {
                return;
            }
            match self.deadline() {
                Some(deadline) => tokio::select! {
                    biased;
                    () = closed => {}
                    () = sleep_until(deadline) => {}
                },
                None => closed.await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held_for(time: Duration) -> Fence {
        let fence = Fence::closed();
        fence.extend_until(Instant::now() + time);
        fence
    }

    #[tokio::test(start_paused = true)]
    async fn fence_closes_at_its_deadline() {
        let fence = held_for(seconds(10));
        assert!(fence.guard().is_ok());
        advance(seconds(10)).await;
        assert!(fence.guard().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_guard_outlives_renewals() {
        let fence = held_for(seconds(10));
        let guard = fence.guard().expect("the lease is held");
        advance(seconds(9)).await;
        fence.extend_until(Instant::now() + seconds(10));
        advance(seconds(9)).await;
        assert!(guard.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn guard_is_lost_after_a_gap() {
        let fence = held_for(seconds(10));
        let guard = fence.guard().expect("the lease is held");
        advance(seconds(11)).await;
        assert!(!guard.is_held(), "past the deadline");
        fence.extend_until(Instant::now() + seconds(10));
        assert!(fence.is_open());
        assert!(!guard.is_held(), "another term");
        let closed = fence.guard().expect("the lease is held");
        fence.revoke();
        fence.extend_until(Instant::now() + seconds(10));
        assert!(!closed.is_held(), "closed in between");
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_wake_at_the_end_and_not_at_renewals() {
        let begin = Instant::now();
        let fence = held_for(seconds(10));
        let guard = fence.guard().expect("the lease is held");
        let renewed = async {
            sleep_until(begin + seconds(9)).await;
            fence.extend_until(begin + seconds(19));
            sleep_until(begin + seconds(12)).await;
            fence.revoke();
        };
        tokio::join!(guard.until_lost(), renewed);
        assert_eq!(begin.elapsed(), seconds(12), "closed before its time");
        guard.until_lost().await;
        fence.extend_until(begin + seconds(20));
        fence.guard().expect("the lease is held").until_lost().await;
        assert_eq!(begin.elapsed(), seconds(20), "at its deadline");
    }

    #[test]
    fn an_open_fence_never_ends() {
        let guard = Fence::always_open().guard().expect("the fence is open");
        assert!(guard.is_held());
        assert_eq!(guard.deadline(), None);
        assert!(Fence::closed().guard().is_err());
    }
}

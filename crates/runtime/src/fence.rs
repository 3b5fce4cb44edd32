//! The right to act: checked before every effect, lost the moment a lease can no longer be proven.
//!
//! Judged on the monotonic clock of this process alone; nothing here reads wall time. A check says
//! whether an effect may be started; only a [`FenceGuard`] asked after it can say whether the right was
//! held all the way, because a process may stop for minutes between a check and its effect.
//!
//! A process that is stopped is covered; a machine that is suspended is not, where its monotonic
//! clock stops with it, as Linux's does. There the server's own check of versions is what is left.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ErrorClass, Result};

/// A handle on the right to act. Clones share it.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Wakes those who act when the right ends before its time.
    closed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// How often the right was gained anew. Within one term it was held without a gap.
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
    /// A fence for a process that shares its work with nobody.
    #[must_use]
    pub fn always_open() -> Self {
        Self::with_right(Right::Open)
    }

    /// A fence that lets nothing through until a lease is held.
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

    /// The lease is ours until `deadline`, counted from before the renewal was sent. After a gap,
    /// however short, a new term begins.
    pub fn extend_until(&self, deadline: Instant) {
        let now = Instant::now();
        self.update(|state| {
            if !state.right.holds(now) {
                state.term += 1;
            }
            state.right = Right::HeldUntil(deadline);
        });
    }

    /// The lease is lost or given up.
    pub fn revoke(&self) {
        self.update(|state| state.right = Right::Closed);
        self.0.closed.notify_waiters();
    }

    /// Whether an effect may be started now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state().right.holds(Instant::now())
    }

    /// How often the right was gained anew. Other replicas may have acted between two terms.
    pub(crate) fn term(&self) -> u64 {
        self.state().term
    }

    /// Taken before an effect, asked after it. An error where the effect may not be started.
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
            "this replica does not hold the lease",
        ))
    }

    fn state(&self) -> State {
        *self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        let state = self.0.state.lock();
        change(&mut state.unwrap_or_else(PoisonError::into_inner));
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
    /// effect is stale: another replica may have acted in between, and may have been overwritten.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let state = self.fence.state();
        state.term == self.term && state.right.holds(Instant::now())
    }

    /// When the right ends unless it is renewed, so that a call need not wait for longer.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.fence.state().right {
            Right::HeldUntil(deadline) => Some(deadline),
            Right::Open | Right::Closed => None,
        }
    }

    /// Returns when the right has ended, at its deadline or before: whatever is still on its way is
    /// then no longer worth waiting for.
    pub(crate) async fn until_lost(&self) {
        loop {
            let mut closed = std::pin::pin!(self.fence.0.closed.notified());
            // Before the look: what is closed after it is then heard of.
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
        let guard = fence.guard().expect("it is held");
        advance(seconds(9)).await;
        fence.extend_until(Instant::now() + seconds(10));
        advance(seconds(9)).await;
        assert!(guard.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn guard_is_lost_after_a_gap() {
        let fence = held_for(seconds(10));
        let guard = fence.guard().expect("it is held");
        advance(seconds(11)).await;
        assert!(!guard.is_held(), "past the deadline");
        fence.extend_until(Instant::now() + seconds(10));
        assert!(fence.is_open());
        assert!(!guard.is_held(), "another term");
        let closed = fence.guard().expect("it is held");
        fence.revoke();
        fence.extend_until(Instant::now() + seconds(10));
        assert!(!closed.is_held(), "closed in between");
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_wake_at_the_end_and_not_at_renewals() {
        let begin = Instant::now();
        let fence = held_for(seconds(10));
        let guard = fence.guard().expect("it is held");
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
        fence.guard().expect("it is held").until_lost().await;
        assert_eq!(begin.elapsed(), seconds(20), "at its deadline");
    }

    #[test]
    fn an_open_fence_never_ends() {
        let guard = Fence::always_open().guard().expect("it is open");
        assert!(guard.is_held());
        assert_eq!(guard.deadline(), None);
        assert!(Fence::closed().guard().is_err());
    }
}

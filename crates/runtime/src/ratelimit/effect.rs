//! A call to another system as an effect: its turn, then the right to act, then the call.

use tokio::time::{Instant, timeout_at};

use crate::error::{Error, ErrorClass, Result};
use crate::leadership::fence::Fence;
use crate::ratelimit::{LimitLane, Permit, RateLimiter};
use crate::telemetry::StaleEffect;

impl RateLimiter {
    /// Makes one call to the target: waits for its turn, checks `fence` right before `effect` is
    /// begun, and gives it up at `deadline`. `what` names it in logs. `effect` passes the response to the permit.
    ///
    /// If the lease is lost during an effect, the effect has still happened: its result is
    /// returned, and it is counted as stale.
    ///
    /// # Errors
    /// [`ErrorClass::Throttled`] without a turn in time, [`ErrorClass::Unavailable`] without the lease or at
    /// the deadline, and whatever `effect` returns.
    pub async fn call<T, F>(
        &self,
        lane: LimitLane,
        deadline: Instant,
        fence: &Fence,
        what: &str,
        effect: impl FnOnce(Permit) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let permit = self.acquire(lane, deadline).await?;
        let guard = fence.guard()?;
        let result = timeout_at(deadline, effect(permit)).await;
        if !guard.is_held() {
            self.telemetry().emit(StaleEffect {
                target: self.name(),
                what,
            });
        }
        result.unwrap_or_else(|_| {
            let late = format!("{what}: {} did not respond before the deadline", self.name());
            Err(Error::new(ErrorClass::Unavailable, late))
        })
    }
}

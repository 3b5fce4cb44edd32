//! A call to another system as an effect: its turn, then the right to act, then the call.

use tokio::time::{Instant, timeout_at};

use super::{Budget, Lane, Permit};
use crate::error::{Class, Error, Result};
use crate::fence::Fence;
use crate::telemetry::EffectStale;

impl Budget {
    /// Makes one call to the target: waits for its turn, checks `fence` right before `effect` is
    /// begun, and gives it up at `deadline`. `what` names it in logs. `effect` tells the permit what was answered.
    ///
    /// An effect during which the lease was lost has happened all the same: its result is
    /// returned, and it is counted as stale.
    ///
    /// # Errors
    /// [`Class::Throttled`] without a turn in time, [`Class::Unavailable`] without the lease or at
    /// the deadline, and whatever `effect` returns.
    pub async fn call<T, F>(
        &self,
        lane: Lane,
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
        if !guard.still_holds() {
            self.telemetry().emit(EffectStale {
                target: self.name(),
                what,
            });
        }
        result.unwrap_or_else(|_| {
            let late = format!("{what}: {} did not answer in time", self.name());
            Err(Error::new(Class::Unavailable, late))
        })
    }
}

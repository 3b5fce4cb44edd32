//! The run that a call belongs to: its deadline and the lane it spends from.
//!
//! Task-local, so that a reconcile can use any `kube::Api` and still has its deadline.

use tokio::time::Instant;

use crate::ratelimit::LimitLane;

tokio::task_local! {
    static SCOPE: CallContext;
}

/// The run that a call belongs to.
#[derive(Clone, Copy, Debug)]
pub struct CallContext {
    /// The deadline of the run.
    pub deadline: Instant,
    /// The lane of the API server's budget that its calls spend from.
    pub lane: LimitLane,
}

impl CallContext {
    /// The context of the current task, if it has one.
    #[must_use]
    pub fn current() -> Option<Self> {
        SCOPE.try_with(|scope| *scope).ok()
    }

    /// Runs `work` in this context.
    pub async fn run<F: Future>(self, work: F) -> F::Output {
        SCOPE.scope(self, work).await
    }
}

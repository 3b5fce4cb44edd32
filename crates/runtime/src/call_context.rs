//! What a call made inside a run knows of that run: its deadline and the lane it spends from.
//!
//! Task-local, so that a reconcile can use any `kube::Api` and still be held to its deadline.

use tokio::time::Instant;

use crate::ratelimit::LimitLane;

tokio::task_local! {
    static SCOPE: CallContext;
}

/// The run that a call belongs to.
#[derive(Clone, Copy, Debug)]
pub struct CallContext {
    /// When the run must be over.
    pub deadline: Instant,
    /// The lane of the API server's budget that its calls spend from.
    pub lane: LimitLane,
}

impl CallContext {
    /// The scope of the current task, if it is inside one.
    #[must_use]
    pub fn current() -> Option<Self> {
        SCOPE.try_with(|scope| *scope).ok()
    }

    /// Runs `work` inside this scope.
    pub async fn run<F: Future>(self, work: F) -> F::Output {
        SCOPE.scope(self, work).await
    }
}

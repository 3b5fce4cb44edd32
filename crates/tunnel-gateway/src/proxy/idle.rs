//! An idle timeout for bodies.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Expires after a time without progress. The timer is created and reset only when it is polled, because most
/// bodies never wait.
#[derive(Debug)]
pub(super) struct IdleTimer {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    active: bool,
}

impl IdleTimer {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            timeout: longest,
            timer: None,
            active: true,
        }
    }

    /// Records progress: the timeout restarts with the next poll.
    pub(super) fn record_activity(&mut self) {
        self.active = true;
    }

    /// Ready when nothing has moved for too long.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + self.timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if std::mem::take(&mut self.active) {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_runs_out_only_after_standing_still() {
        let mut idle = IdleTimer::new(Duration::from_secs(10));
        let began = Instant::now();
        for _ in 0..5 {
            let wait = poll_fn(|cx| idle.poll_expired(cx));
            tokio::time::timeout(Duration::from_secs(9), wait)
                .await
                .expect_err("it moves in time");
            idle.record_activity();
        }
        poll_fn(|cx| idle.poll_expired(cx)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(9 * 5 + 10));
    }
}

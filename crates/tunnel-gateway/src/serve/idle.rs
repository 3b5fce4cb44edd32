//! An idle timeout for bodies.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Expires after a time without progress. The timer is created and reset only when it is polled, because most
/// bodies never wait.
#[derive(Debug)]
pub(super) struct IdleTimer {
    longest: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    moved: bool,
}

impl IdleTimer {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            timer: None,
            moved: true,
        }
    }

    /// Records progress: the timeout restarts with the next poll.
    pub(super) fn moved(&mut self) {
        self.moved = true;
    }

    /// Ready when nothing has moved for too long.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + self.longest;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if std::mem::take(&mut self.moved) {
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
            let wait = poll_fn(|cx| idle.poll(cx));
            tokio::time::timeout(Duration::from_secs(9), wait)
                .await
                .expect_err("it moves in time");
            idle.moved();
        }
        poll_fn(|cx| idle.poll(cx)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(9 * 5 + 10));
    }
}

//! What the usual way would have done with the same events. Pure: a small model for each habit with its
//! parameters, never a stored result.

use std::time::Duration;

/// The retry queue of most controllers: each failure in a row doubles the delay of the item.
///
/// 5 ms and 1,000 s are the defaults of client-go and controller-runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaselineQueue {
    pub(crate) base: Duration,
    pub(crate) max_delay: Duration,
}

impl Default for BaselineQueue {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max_delay: Duration::from_secs(1_000),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BaselineWrite {
    pub(crate) failures: u32,
    pub(crate) at: Duration,
}

impl BaselineQueue {
    /// The delay after this many failures in a row.
    pub(crate) fn retry_delay(self, failures: u32) -> Duration {
        let doubled = 2u32.checked_pow(failures.saturating_sub(1));
        let delay = doubled.and_then(|factor| self.base.checked_mul(factor));
        delay.map_or(self.max_delay, |delay| delay.min(self.max_delay))
    }

    /// When a write succeeds after these conflicts in a row: each was an attempt of the item, and only the
    /// item's own delay triggers the next one.
    pub(crate) fn write_after(self, conflicts: &[Duration]) -> BaselineWrite {
        let failures = u32::try_from(conflicts.len()).unwrap_or(u32::MAX);
        let last = conflicts.last().copied().unwrap_or_default();
        let wait = match failures {
            0 => Duration::ZERO,
            some => self.retry_delay(some),
        };
        BaselineWrite {
            failures,
            at: last + wait,
        }
    }

    /// The time of the attempt after this many failures, the first of them at `from`.
    pub(crate) fn attempt_after(self, from: Duration, failures: u32) -> BaselineWrite {
        let waits = (1..=failures).map(|failure| self.retry_delay(failure));
        BaselineWrite {
            failures,
            at: from + waits.sum::<Duration>(),
        }
    }
}

/// An agent that publishes its addresses only with its heartbeat.
///
/// A lease of 1,200 s, renewed at half its time, is the default of a widely used agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaselineHeartbeat {
    pub(crate) lease: Duration,
}

impl Default for BaselineHeartbeat {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(1_200),
        }
    }
}

impl BaselineHeartbeat {
    /// The first heartbeat after `moment`. Both count from the agent's first one.
    pub(crate) fn heartbeat_after(self, moment: Duration) -> Duration {
        next_multiple(self.lease / 2, moment)
    }
}

/// A loop that writes its failure into the status of its own object, is triggered by that write and tries
/// again: the event arrives before any backoff ends.
///
/// `echo` is the time from a write to its watch event, measured in this run. An attempt is two calls of 5 ms, a round
/// trip within a region, and two writes, because the failed step and the whole pass each write a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaselineLoop {
    pub(crate) echo: Duration,
    pub(crate) writes: u32,
    pub(crate) call: Duration,
    pub(crate) calls: u32,
}

impl BaselineLoop {
    pub(crate) fn new(echo: Duration) -> Self {
        Self {
            echo,
            writes: 2,
            call: Duration::from_millis(5),
            calls: 2,
        }
    }

    /// The number of attempts and status writes in `time`.
    pub(crate) fn count_within(self, time: Duration) -> (u64, u64) {
        let turn = self.echo * self.writes + self.call * self.calls;
        let attempts = time.as_nanos() / turn.as_nanos().max(1) + 1;
        let attempts = u64::try_from(attempts).unwrap_or(u64::MAX);
        (attempts, attempts.saturating_mul(self.writes.into()))
    }
}

/// A controller that calls the provider at every node event, and checks its gateway every 30 s.
///
/// 30 s, a grace period of 90 s and a bucket of 3,600 that refills at one per second are the defaults of
/// a controller of this kind and its provider; a node sends a heartbeat every 10 s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaselinePoller {
    pub(crate) resync: Duration,
    pub(crate) grace: Duration,
    pub(crate) bucket: f64,
    pub(crate) refill_per_second: f64,
    pub(crate) heartbeat_interval: Duration,
}

impl Default for BaselinePoller {
    fn default() -> Self {
        Self {
            resync: Duration::from_secs(30),
            grace: Duration::from_secs(90),
            bucket: 3_600.0,
            refill_per_second: 1.0,
            heartbeat_interval: Duration::from_secs(10),
        }
    }
}

impl BaselinePoller {
    /// When it moves the address of a node that died at `death`; both count from its start.
    pub(crate) fn failover_time(self, death: Duration) -> Duration {
        next_multiple(self.resync, death) + self.grace
    }

    /// How long a full bucket lasts if each heartbeat of this many nodes costs a call.
    pub(crate) fn bucket_lifetime(self, nodes: u32) -> Option<Duration> {
        let net = self.reads_per_second(nodes) - self.refill_per_second;
        (net > 0.0).then(|| Duration::from_secs_f64(self.bucket / net))
    }

    /// How often a move is rejected before one of its attempts gets a call, where `others` is the share of the
    /// time in which the other clients leave one. Reads that are more frequent than refills take every call
    /// at the next read, so that a call is available only until then.
    ///
    /// Attempts are spread evenly over the time between two calls, by the golden ratio.
    pub(crate) fn refusal_count(self, nodes: u32, others: f64) -> u32 {
        const GOLDEN_RATIO: f64 = 0.618_033_988_75;
        let reads = self.reads_per_second(nodes);
        let share = match reads > self.refill_per_second {
            true => self.refill_per_second / reads,
            false => others,
        };
        let found = |attempt: &u32| (f64::from(attempt + 1) * GOLDEN_RATIO).fract() < share;
        (0..64).find(found).unwrap_or(64)
    }

    fn reads_per_second(self, nodes: u32) -> f64 {
        f64::from(nodes) / self.heartbeat_interval.as_secs_f64()
    }
}

/// The first multiple of `every` after `moment`.
fn next_multiple(every: Duration, moment: Duration) -> Duration {
    let passed = moment.as_nanos() / every.as_nanos().max(1);
    every * (u32::try_from(passed).unwrap_or(u32::MAX - 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn from_secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn delays_double_up_to_the_maximum() {
        let delays = [1, 2, 3, 16, 18, 19, 60].map(|failures| BaselineQueue::default().retry_delay(failures));
        let expected = [5, 10, 20, 163_840, 655_360, 1_000_000, 1_000_000].map(from_millis);
        assert_eq!(delays, expected);
    }

    #[test]
    fn longer_conflicts_mean_longer_silence() {
        let lands = |times: u64| {
            let conflicts: Vec<_> = (1..=times).map(|n| from_millis(100 * n)).collect();
            BaselineQueue::default().write_after(&conflicts).at
        };
        assert_eq!(lands(0), Duration::ZERO);
        assert_eq!(lands(1), from_millis(105));
        assert_eq!(lands(18), from_millis(1_800 + 655_360));
    }

    #[test]
    fn refusals_add_up() {
        let landed = BaselineQueue::default().attempt_after(from_millis(100), 3);
        assert_eq!((landed.failures, landed.at), (3, from_millis(135)));
        assert_eq!(
            BaselineQueue::default().attempt_after(from_millis(100), 0).at,
            from_millis(100)
        );
    }

    #[test]
    fn an_address_waits_for_the_next_heartbeat() {
        let heartbeat = BaselineHeartbeat::default();
        assert_eq!(heartbeat.heartbeat_after(from_secs(3)), from_secs(600));
        assert_eq!(heartbeat.heartbeat_after(from_secs(600)), from_secs(1_200));
        let quick = BaselineHeartbeat { lease: from_secs(30) };
        assert_eq!(quick.heartbeat_after(from_secs(20)), from_secs(30));
    }

    #[test]
    fn a_loop_is_as_fast_as_its_own_writes_come_back() {
        assert_eq!(
            BaselineLoop::new(from_millis(5)).count_within(from_secs(30)),
            (1_501, 3_002)
        );
        assert_eq!(
            BaselineLoop::new(from_millis(45)).count_within(from_secs(30)),
            (301, 602)
        );
    }

    #[test]
    fn a_poller_polls_and_waits_and_runs_out_of_calls() {
        let watchman = BaselinePoller::default();
        assert_eq!(watchman.failover_time(from_secs(31)), from_secs(150));
        assert_eq!(watchman.bucket_lifetime(210), Some(from_secs(180)));
        assert_eq!(watchman.bucket_lifetime(5), None);
        assert_eq!(watchman.refusal_count(2, 1.0), 0);
        assert_eq!(watchman.refusal_count(2, 0.0), 64);
        let refusals = [20, 50, 200, 1_000].map(|nodes| watchman.refusal_count(nodes, 1.0));
        assert!(refusals.is_sorted() && refusals[3] > 10, "{refusals:?}");
    }
}

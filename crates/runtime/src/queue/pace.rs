//! The maximum rate of a lane: a number per second, with a small burst.

use std::time::Duration;

/// A rate with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRate {
    /// How many per second, on average.
    pub per_second: u32,
    /// How many at once after a quiet time.
    pub burst: u32,
}

/// A meter for a [`LaneRate`] that keeps no count, only the time at which the bucket would be
/// full again.
#[derive(Debug)]
pub(super) struct RateMeter {
    interval: Duration,
    burst: Duration,
    full: Duration,
}

impl RateMeter {
    pub(super) fn new(pace: LaneRate) -> Self {
        let interval = Duration::from_secs(1) / pace.per_second.max(1);
        Self {
            interval,
            burst: interval * (pace.burst.max(1) - 1),
            full: Duration::ZERO,
        }
    }

    /// Since when, or from when on, one more is allowed.
    pub(super) fn ready_at(&self) -> Duration {
        self.full.saturating_sub(self.burst)
    }

    pub(super) fn record(&mut self, now: Duration) {
        self.full = self.full.max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rate_is_never_faster_or_slower_than_configured(
            per_second in 1_u32..200,
            burst in 1_u32..50,
            gaps in prop::collection::vec(0_u64..100, 1..40),
        ) {
            let mut meter = RateMeter::new(LaneRate { per_second, burst });
            let interval = Duration::from_secs(1) / per_second;
            let (mut now, mut taken) = (Duration::ZERO, Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap);
                while meter.ready_at() <= now {
                    meter.record(now);
                    taken.push(now);
                }
                // A caller that returns at that time is allowed.
                prop_assert!(meter.ready_at() <= now + interval);
            }
            for (i, from) in taken.iter().enumerate() {
                for (j, to) in taken.iter().enumerate().skip(i) {
                    let allowed = u64::from(burst) + ((*to - *from).as_nanos() / interval.as_nanos()) as u64;
                    prop_assert!((j - i + 1) as u64 <= allowed + 1);
                }
            }
        }
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut meter = RateMeter::new(LaneRate {
            per_second: 100,
            burst: 10,
        });
        for _ in 0..10 {
            assert!(meter.ready_at() <= Duration::ZERO);
            meter.record(Duration::ZERO);
        }
        assert_eq!(meter.ready_at(), Duration::from_millis(10));
    }
}

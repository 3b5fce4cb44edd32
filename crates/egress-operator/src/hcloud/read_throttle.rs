//! How often routine reads are made, given the remaining calls of the rate limit. Pure.
//!
//! The provider has no lanes: a routine read uses the same tokens as a failover, and so do other programs with the same
//! token. Routine reads become rarer when the bucket is low, and stop when only the reserve of a failover is left. Only
//! a response shows whether the bucket has recovered, so one read per [`PROBE_INTERVAL`] is let through meanwhile; that is 4 of
//! 3,600 tokens per hour. Cached state is trusted for longer than that: five of these longer resyncs.

use std::time::Duration;

use crate::egress::RemainingCalls;

/// Time between two reads while only the reserve is left.
const PROBE_INTERVAL: Duration = Duration::from_secs(900);
/// Minimum number of resyncs between two reads in that state.
const PROBE_RESYNCS: u32 = 4;

/// How much of the rate limit is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BudgetPressure {
    /// Enough, or unknown.
    #[default]
    Plenty,
    /// Below a quarter: reads are half as frequent.
    Low,
    /// No more than the reserve of a failover.
    Scarce,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadThrottle {
    level: BudgetPressure,
    remaining: Option<RemainingCalls>,
    /// When the provider last reported the remaining calls, or a routine read was last sent.
    last_update: Duration,
}

impl ReadThrottle {
    /// Stores a report of the provider.
    pub(super) fn record_remaining(&mut self, seen: RemainingCalls, now: Duration) {
        self.level = next_level(self.level, seen);
        self.remaining = Some(seen);
        self.last_update = now;
    }

    pub(super) fn record_sent(&mut self, now: Duration) {
        self.last_update = now;
    }

    pub(super) fn remaining(&self) -> Option<RemainingCalls> {
        self.remaining
    }

    /// Interval of routine reads. `expected` as in [`Self::is_scarce`].
    pub(super) fn read_interval(&self, asked_for: Duration, expected: Option<f64>) -> Duration {
        match self.level {
            _ if self.is_scarce(expected) => (asked_for * PROBE_RESYNCS).max(PROBE_INTERVAL),
            BudgetPressure::Plenty => asked_for,
            BudgetPressure::Low | BudgetPressure::Scarce => asked_for * 2,
        }
    }

    /// Whether only the reserve of a failover is left. `expected` is the estimate of what is left now, given what other
    /// clients spend.
    pub(super) fn is_scarce(&self, expected: Option<f64>) -> bool {
        let least = self.remaining.map(|seen| f64::from(seen.reserved_calls()));
        let spent = expected.zip(least).is_some_and(|(left, least)| left <= least);
        self.level == BudgetPressure::Scarce || spent
    }

    /// When the next routine read may be sent; `None` if now.
    pub(super) fn next_read_at(&self, now: Duration, expected: Option<f64>) -> Option<Duration> {
        let until = self.last_update + PROBE_INTERVAL;
        (self.is_scarce(expected) && now < until).then_some(until)
    }
}

/// Hysteresis: a level ends at a higher value than it starts at, so that it does not flap.
fn next_level(level: BudgetPressure, seen: RemainingCalls) -> BudgetPressure {
    let RemainingCalls { limit, remaining } = seen;
    let reserve = seen.reserved_calls();
    let spare = reserve + reserve.min((limit - reserve) / 2);
    let share = |percent: u32| u64::from(limit) * u64::from(percent) / 100;
    let was_low = level != BudgetPressure::Plenty;
    if remaining <= reserve || (level == BudgetPressure::Scarce && remaining <= spare) {
        BudgetPressure::Scarce
    } else if u64::from(remaining) < share(if was_low { 30 } else { 25 }) {
        BudgetPressure::Low
    } else {
        BudgetPressure::Plenty
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn left(remaining: u32) -> RemainingCalls {
        RemainingCalls { limit: 3600, remaining }
    }

    #[test]
    fn reads_slow_down_and_recover_with_hysteresis() {
        let mut thrift = ReadThrottle::default();
        let mut resync = |remaining| {
            thrift.record_remaining(left(remaining), secs(0));
            thrift.read_interval(secs(30), None).as_secs()
        };
        let path = [3600, 901, 899, 1000, 1080, 899, 31, 30, 31, 60, 61, 1079, 1081];
        let expected = [30, 30, 60, 60, 30, 60, 60, 900, 900, 900, 60, 60, 30];
        assert_eq!(path.map(&mut resync), expected);
    }

    #[test]
    fn without_spare_budget_there_is_only_an_occasional_probe_read() {
        let mut thrift = ReadThrottle::default();
        assert_eq!(thrift.next_read_at(secs(0), None), None, "unknown");
        thrift.record_remaining(left(30), secs(10));
        assert_eq!(thrift.next_read_at(secs(11), Some(100.0)), Some(secs(910)));
        assert_eq!(thrift.next_read_at(secs(910), None), None);
        thrift.record_sent(secs(910));
        assert_eq!(
            thrift.next_read_at(secs(911), None),
            Some(secs(1810)),
            "also when it failed"
        );
    }

    #[test]
    fn what_others_have_spent_since_counts_too() {
        let mut thrift = ReadThrottle::default();
        thrift.record_remaining(left(60), secs(0));
        assert_eq!(thrift.next_read_at(secs(30), Some(45.0)), None);
        assert_eq!(thrift.read_interval(secs(30), Some(45.0)), secs(60));
        assert_eq!(thrift.next_read_at(secs(30), Some(30.0)), Some(secs(900)));
        assert_eq!(thrift.read_interval(secs(30), Some(30.0)), secs(900), "and is reported");
    }

    proptest! {
        #[test]
        fn a_full_bucket_is_never_scarce_for_long(limit in 1u32..100_000, from in 0u32..100_000) {
            let seen = |remaining| RemainingCalls { limit, remaining };
            let level = next_level(BudgetPressure::Scarce, seen(from.min(limit)));
            prop_assert!(next_level(level, seen(limit)) == BudgetPressure::Plenty);
            prop_assert!(next_level(level, seen(seen(limit).reserved_calls())) == BudgetPressure::Scarce);
        }
    }
}

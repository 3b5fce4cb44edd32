//! How often routine reads are made, given the remaining calls of the rate limit. Pure.
//!
//! The provider has no lanes: a routine read uses the same tokens as a failover, and so do other
//! programs with the same token. Routine reads become rarer when the bucket is low, and stop when
//! only the reserve of a failover is left. Only a response shows whether the bucket has recovered,
//! so one read per [`PROBE`] is let through meanwhile; that is 4 of 3,600 tokens per hour. Cached
//! state is trusted for longer than that: five of these longer resyncs.

use std::time::Duration;

use crate::world::RemainingCalls;

/// Time between two reads while only the reserve is left.
pub(super) const PROBE: Duration = Duration::from_secs(900);
/// Minimum number of resyncs between two reads in that state.
const RARER: u32 = 4;

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
    seen: Option<RemainingCalls>,
    /// When the provider last reported the remaining calls, or a routine read was last sent.
    asked: Duration,
}

impl ReadThrottle {
    /// Stores a report of the provider.
    pub(super) fn heard(&mut self, seen: RemainingCalls, now: Duration) {
        self.level = next(self.level, seen);
        self.seen = Some(seen);
        self.asked = now;
    }

    /// A routine read is sent.
    pub(super) fn sent(&mut self, now: Duration) {
        self.asked = now;
    }

    pub(super) fn seen(&self) -> Option<RemainingCalls> {
        self.seen
    }

    /// Interval of routine reads. `expected` as in [`Self::is_scarce`].
    pub(super) fn resync(&self, asked_for: Duration, expected: Option<f64>) -> Duration {
        match self.level {
            _ if self.is_scarce(expected) => (asked_for * RARER).max(PROBE),
            BudgetPressure::Plenty => asked_for,
            BudgetPressure::Low | BudgetPressure::Scarce => asked_for * 2,
        }
    }

    /// Whether only the reserve of a failover is left. `expected` is the estimate of what is left
    /// now, given what other clients spend.
    pub(super) fn is_scarce(&self, expected: Option<f64>) -> bool {
        let least = self.seen.map(|seen| f64::from(seen.reserve()));
        let spent = expected
            .zip(least)
            .is_some_and(|(left, least)| left <= least);
        self.level == BudgetPressure::Scarce || spent
    }

    /// When the next routine read may be sent; `None` if now.
    pub(super) fn not_before(&self, now: Duration, expected: Option<f64>) -> Option<Duration> {
        let until = self.asked + PROBE;
        (self.is_scarce(expected) && now < until).then_some(until)
    }
}

/// Hysteresis: a level ends at a higher value than it starts at, so that it does not flap.
fn next(level: BudgetPressure, seen: RemainingCalls) -> BudgetPressure {
    let RemainingCalls { limit, remaining } = seen;
    let reserve = seen.reserve();
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
        RemainingCalls {
            limit: 3600,
            remaining,
        }
    }

    #[test]
    fn looks_become_rarer_and_then_as_frequent_again_with_hysteresis() {
        let mut thrift = ReadThrottle::default();
        let mut resync = |remaining| {
            thrift.heard(left(remaining), secs(0));
            thrift.resync(secs(30), None).as_secs()
        };
        let path = [
            3600, 901, 899, 1000, 1080, 899, 31, 30, 31, 60, 61, 1079, 1081,
        ];
        let expected = [30, 30, 60, 60, 30, 60, 60, 900, 900, 900, 60, 60, 30];
        assert_eq!(path.map(&mut resync), expected);
    }

    #[test]
    fn nobody_looks_while_there_is_nothing_to_spare_but_once_in_a_while() {
        let mut thrift = ReadThrottle::default();
        assert_eq!(thrift.not_before(secs(0), None), None, "unknown");
        thrift.heard(left(30), secs(10));
        assert_eq!(thrift.not_before(secs(11), Some(100.0)), Some(secs(910)));
        assert_eq!(thrift.not_before(secs(910), None), None);
        thrift.sent(secs(910));
        assert_eq!(
            thrift.not_before(secs(911), None),
            Some(secs(1810)),
            "also when it failed"
        );
    }

    #[test]
    fn what_others_have_spent_since_counts_too() {
        let mut thrift = ReadThrottle::default();
        thrift.heard(left(60), secs(0));
        assert_eq!(thrift.not_before(secs(30), Some(45.0)), None);
        assert_eq!(thrift.resync(secs(30), Some(45.0)), secs(60));
        assert_eq!(thrift.not_before(secs(30), Some(30.0)), Some(secs(900)));
        assert_eq!(
            thrift.resync(secs(30), Some(30.0)),
            secs(900),
            "and is reported"
        );
    }

    proptest! {
        #[test]
        fn a_full_bucket_is_never_scarce_for_long(limit in 1u32..100_000, from in 0u32..100_000) {
            let seen = |remaining| RemainingCalls { limit, remaining };
            let level = next(BudgetPressure::Scarce, seen(from.min(limit)));
            prop_assert!(next(level, seen(limit)) == BudgetPressure::Plenty);
            prop_assert!(next(level, seen(seen(limit).reserve())) == BudgetPressure::Scarce);
        }
    }
}

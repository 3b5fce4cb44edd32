//! When a lease is renewed: pure arithmetic, so that tests can verify that it fits inside the lease.

use std::time::Duration;

/// Maximum timeout and maximum delay between attempts, for any lease duration.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The times of a heartbeat, all of them fractions of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalSchedule {
    lease: Duration,
}

impl RenewalSchedule {
    /// The schedule for a lease duration.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self { lease }
    }

    /// Timeout of one attempt: at most a twelfth of the lease.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        (self.lease / 12).min(MAX_WAIT)
    }

    /// From the end of a success to the next attempt: a third of the lease, minus up to a tenth of that, so
    /// that agents that started together drift apart.
    #[must_use]
    pub fn renew_after(&self, rng: &mut fastrand::Rng) -> Duration {
        (self.lease / 3).mul_f64(1.0 - 0.1 * rng.f64())
    }

    /// From the end of a failure, which took `spent`, to the next attempt: a twelfth of the lease between
    /// starts, minus up to half of that.
    #[must_use]
    pub fn retry_after(&self, spent: Duration, rng: &mut fastrand::Rng) -> Duration {
        let apart = self.timeout().mul_f64(1.0 - 0.5 * rng.f64());
        apart.saturating_sub(spent)
    }

    /// The hysteresis bound: an outage of at most this length never lets two successes be further apart than
    /// the lease.
    ///
    /// A third of the lease passes before the first attempt. That attempt may have begun before the outage
    /// and fail because of it; the last failing attempt may run into its timeout; and the one that succeeds
    /// may need all of its own.
    #[must_use]
    pub fn max_tolerated_outage(&self) -> Duration {
        self.lease - self.lease / 3 - self.timeout() * 3
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How attempts behave over time.
    #[derive(Clone, Copy, Debug)]
    struct World {
        lease: Duration,
        burst: (Duration, Duration),
        /// As a fraction of the timeout: how long a failure and a success take.
        failing: f64,
        working: f64,
    }

    /// The times at which successes ended.
    fn successes(world: World, seed: u64, until: Duration) -> Vec<Duration> {
        let schedule = RenewalSchedule::new(world.lease);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut now, mut ends) = (Duration::ZERO, Vec::new());
        while now < until {
            let needs = schedule.timeout().mul_f64(world.working);
            let (from, to) = world.burst;
            let clear = now + needs < from || now >= to;
            let spent = match clear {
                true => needs,
                false => schedule.timeout().mul_f64(world.failing),
            };
            now += spent;
            now += match clear {
                true => {
                    ends.push(now);
                    schedule.renew_after(&mut rng)
                }
                false => schedule.retry_after(spent, &mut rng),
            };
            // Timer resolution.
            now += Duration::from_micros(1);
        }
        ends
    }

    proptest! {
        #[test]
        fn a_burst_within_the_bound_never_loses_the_lease(
            seconds in 5_u64..3_600,
            starts in 0.0..3.0_f64,
            part in 0.0..0.99_f64,
            failing in 0.0..=1.0_f64,
            working in 0.0..=1.0_f64,
            seed in any::<u64>(),
        ) {
            let lease = Duration::from_secs(seconds);
            let from = lease.mul_f64(starts);
            let to = from + RenewalSchedule::new(lease).max_tolerated_outage().mul_f64(part);
            let world = World { lease, burst: (from, to), failing, working };
            // The first success creates the lease.
            for pair in successes(world, seed, lease * 6).windows(2) {
                prop_assert!(pair[1] - pair[0] <= lease, "{pair:?}");
            }
        }
    }

    #[test]
    fn a_longer_burst_can_lose_it() {
        let lease = Duration::from_secs(30);
        let bound = RenewalSchedule::new(lease).max_tolerated_outage();
        let lost = |seed| {
            let from = Duration::from_secs(10);
            let world = World {
                lease,
                burst: (from, from + bound * 2),
                failing: 1.0,
                working: 1.0,
            };
            let ends = successes(world, seed, lease * 4);
            ends.windows(2).any(|pair| pair[1] - pair[0] > lease)
        };
        assert!((0..100).any(lost));
    }

    #[test]
    fn a_common_lease_has_common_times() {
        let schedule = RenewalSchedule::new(Duration::from_secs(30));
        assert_eq!(schedule.timeout(), Duration::from_millis(2_500));
        assert_eq!(schedule.max_tolerated_outage(), Duration::from_millis(12_500));
    }
}

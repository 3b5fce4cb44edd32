//! How fast tokens flow: nothing while closed, then a ramp, then the full rate, never above a pace.
//!
//! The rate is constant between a few moments, so that what has flowed and when enough will have
//! flowed are both sums. Times are since the budget was made.

use std::time::Duration;

/// In how many steps the ramp climbs to the full rate.
const RAMP_STEPS: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct RefillSchedule {
    full: f64,
    /// Rates below the full one, each until a moment; in order.
    steps: Vec<Step>,
    /// What the target can still take, spread over the time until it takes more.
    rate_limit: Option<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    until: Duration,
    rate: f64,
}

impl RefillSchedule {
    pub(super) fn constant(rate: f64) -> Self {
        Self {
            full: rate,
            steps: Vec::new(),
            rate_limit: None,
        }
    }

    /// Nothing flows before `until`; then a ramp. An earlier end than the one that stands is
    /// ignored: answers overtake each other.
    pub(super) fn close(&mut self, now: Duration, until: Duration, ramp: Duration) {
        let until = self.closed_until(now).map_or(until, |held| held.max(until));
        let climb = (1..RAMP_STEPS).map(|step| Step {
            until: until + ramp * step / RAMP_STEPS,
            rate: self.full * f64::from(step) / f64::from(RAMP_STEPS),
        });
        self.steps = std::iter::once(Step { until, rate: 0.0 }).chain(climb).collect();
    }

    /// No more than `rate` before `until`. Replaces the pace before it: the target knows best.
    pub(super) fn limit_rate(&mut self, rate: f64, until: Duration) {
        self.rate_limit = Some(Step { until, rate });
    }

    /// When calls are allowed again, if none is now.
    pub(super) fn closed_until(&self, now: Duration) -> Option<Duration> {
        let first = self.steps.iter().find(|step| step.until > now)?;
        (first.rate <= 0.0).then_some(first.until)
    }

    /// The rate at `at` and how long it stays so.
    pub(super) fn rate(&self, at: Duration) -> (f64, Option<Duration>) {
        let step = self.steps.iter().find(|step| step.until > at);
        let (rate, end) = step.map_or((self.full, None), |step| (step.rate, Some(step.until)));
        match self.rate_limit.filter(|pace| pace.until > at) {
            Some(pace) => (
                rate.min(pace.rate),
                Some(end.map_or(pace.until, |end| end.min(pace.until))),
            ),
            None => (rate, end),
        }
    }

    /// What flows between two moments.
    pub(super) fn amount_between(&self, from: Duration, to: Duration) -> f64 {
        let (mut at, mut sum) = (from, 0.0);
        while at < to {
            let (rate, end) = self.rate(at);
            let next = end.map_or(to, |end| end.min(to));
            sum += rate * (next - at).as_secs_f64();
            at = next;
        }
        sum
    }

    /// When `amount` will have flowed since `from`.
    pub(super) fn time_of_amount(&self, from: Duration, amount: f64) -> Duration {
        let (mut at, mut missing) = (from, amount);
        while missing > 0.0 {
            let (rate, end) = self.rate(at);
            let flows = end.map(|end| rate * (end - at).as_secs_f64());
            match (flows, end) {
                (Some(flows), Some(end)) if flows < missing => {
                    missing -= flows;
                    at = end;
                }
                _ => return at.saturating_add(round_up(missing / rate)),
            }
        }
        at
    }

    /// Drops what is over.
    pub(super) fn drop_expired(&mut self, now: Duration) {
        self.steps.retain(|step| step.until > now);
        self.rate_limit = self.rate_limit.filter(|pace| pace.until > now);
    }
}

/// A moment later rather than a moment before the token is there.
fn round_up(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(Duration::from_secs(u64::from(u32::MAX)))
        .saturating_add(Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn closed_schedule_flows_nothing_then_ramps() {
        let mut flow = RefillSchedule::constant(8.0);
        flow.close(Duration::ZERO, secs(10.0), secs(8.0));
        assert_eq!(flow.closed_until(secs(9.0)), Some(secs(10.0)));
        assert_eq!(flow.amount_between(Duration::ZERO, secs(10.0)), 0.0);
        assert_eq!(flow.amount_between(secs(10.0), secs(11.0)), 1.0);
        assert_eq!(flow.amount_between(secs(10.0), secs(18.0)), 36.0);
        assert_eq!(flow.rate(secs(18.0)).0, 8.0);
    }

    #[test]
    fn stale_answer_does_not_reopen_schedule() {
        let mut flow = RefillSchedule::constant(1.0);
        flow.close(Duration::ZERO, secs(60.0), Duration::ZERO);
        flow.close(secs(1.0), secs(2.0), Duration::ZERO);
        assert_eq!(flow.closed_until(secs(3.0)), Some(secs(60.0)));
    }

    proptest! {
        #[test]
        fn forecast_amount_has_flowed(
            rate in 0.01f64..1000.0, close in 0.0f64..100.0, ramp in 0.0f64..30.0,
            pace in 0.0f64..10.0, until in 0.0f64..200.0, from in 0.0f64..150.0, amount in 0.01f64..50.0,
        ) {
            let mut flow = RefillSchedule::constant(rate);
            flow.close(Duration::ZERO, secs(close), secs(ramp));
            flow.limit_rate(pace, secs(until));
            let then = flow.time_of_amount(secs(from), amount);
            let flowed = flow.amount_between(secs(from), then);
            prop_assert!(flowed >= amount - 1e-6, "{flowed} of {amount}");
            prop_assert!(flowed <= amount + rate * 1e-8 + 1e-6, "{flowed} of {amount}");
            let most = rate * (then - secs(from)).as_secs_f64();
            prop_assert!(flowed <= most + 1e-6);
        }
    }
}

//! Estimates what other clients spend of a shared rate limit, and when it will be exhausted. Pure.
//!
//! The provider reports the remaining calls in every response. The expected value follows from the previous one, the
//! refill rate and our own calls; the gap is what others spent. Over a window the gaps add up to one difference, so
//! rounding errors of single responses cancel out: the error is one token per window plus the error of the refill rate
//! (see the tests). A full bucket hides spending below the refill rate, which counts as zero.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples older than this do not count.
const WINDOW: Duration = Duration::from_secs(600);
/// Maximum number of samples; a burst of calls is one sample.
const MAX_SAMPLES: usize = 128;
/// If the bucket is full sooner than this, whole seconds are too coarse to derive the refill rate.
const MIN_REFILL_TIME: Duration = Duration::from_secs(15);
/// A bucket that empties more slowly than this does not count as emptying: it may be rounding.
const MIN_DRAIN_RATE: f64 = 0.01;
const HOUR: f64 = 3600.0;

/// The rate limit in one response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSample {
    /// When, in this process's time.
    pub at: Duration,
    pub limit: u32,
    /// Remaining calls, after this one.
    pub remaining: u32,
    /// When the bucket would be full, in whole seconds.
    pub full_in: Option<Duration>,
    /// Calls of ours admitted since the previous sample, this one included.
    pub own_calls: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetForecast {
    /// Refill rate, tokens per second.
    pub refill: f64,
    /// Spending of others, tokens per second.
    pub other_rate: f64,
    /// Our spending, tokens per second.
    pub own_rate: f64,
    /// Estimated remaining calls now.
    pub remaining: f64,
    /// When the bucket will be empty at this rate; `None` if it will not.
    pub empty_in: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
pub struct BudgetForecaster {
    samples: VecDeque<BudgetSample>,
}

impl BudgetForecaster {
    pub fn add_sample(&mut self, sample: BudgetSample) {
        match self.samples.back_mut() {
            // The limit changed: earlier samples cannot be compared.
            Some(last) if last.limit != sample.limit => self.samples.clear(),
            // A response that arrived out of order.
            Some(last) if last.at > sample.at => {
                last.own_calls += sample.own_calls;
                return;
            }
            _ => {}
        }
        self.samples.push_back(sample);
        let horizon = sample.at.saturating_sub(WINDOW);
        // Keep one sample from before the window as its start.
        while self.samples.len() > MAX_SAMPLES || self.samples.get(1).is_some_and(|next| next.at <= horizon) {
            self.samples.pop_front();
        }
    }

    /// The estimate at `now`; `None` before the first sample.
    #[must_use]
    pub fn forecast(&self, now: Duration) -> Option<BudgetForecast> {
        let last = self.samples.back()?;
        let refill = self.refill_rate(last.limit);
        let (others, ours) = self.spending_rates(refill);
        let net = others + ours - refill;
        let since = now.saturating_sub(last.at).as_secs_f64();
        let bounded = |level: f64| level.clamp(0.0, f64::from(last.limit));
        let remaining = bounded(f64::from(last.remaining) - (others - refill) * since);
        let empty_in = (net > MIN_DRAIN_RATE)
            .then(|| Duration::try_from_secs_f64(remaining / net).ok())
            .flatten();
        Some(BudgetForecast {
            refill,
            other_rate: others,
            own_rate: ours,
            remaining,
            empty_in,
        })
    }

    /// Derived from the most precise sample; otherwise from the limit, which is per hour.
    fn refill_rate(&self, limit: u32) -> f64 {
        let told = |sample: &BudgetSample| {
            let full_in = sample.full_in.filter(|full_in| *full_in >= MIN_REFILL_TIME)?;
            Some((full_in, f64::from(limit.saturating_sub(sample.remaining))))
        };
        let best = self.samples.iter().filter_map(told).max_by_key(|(full_in, _)| *full_in);
        // The provider rounds to seconds; half a second is the mean error.
        best.filter(|(_, spent)| *spent > 0.0)
            .map_or(f64::from(limit) / HOUR, |(full_in, spent)| {
                spent / (full_in.as_secs_f64() + 0.5)
            })
    }

    /// Spending of others and of ours, tokens per second.
    fn spending_rates(&self, refill: f64) -> (f64, f64) {
        let (mut others, mut ours, mut time) = (0.0, 0.0, 0.0);
        for (before, after) in self.samples.iter().zip(self.samples.iter().skip(1)) {
            let took = (after.at - before.at).as_secs_f64();
            time += took;
            ours += f64::from(after.own_calls);
            let was_full = after.remaining.saturating_add(after.own_calls) >= after.limit.saturating_sub(1);
            if !was_full {
                let expected = f64::from(before.remaining) + refill * took - f64::from(after.own_calls);
                others += expected - f64::from(after.remaining);
            }
        }
        if time < 1.0 {
            return (0.0, 0.0);
        }
        ((others / time).max(0.0), ours / time)
    }
}

#[cfg(test)]
mod tests;

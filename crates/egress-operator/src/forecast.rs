//! What others spend of a rate limit that is shared with them, and when it will be used up. Pure.
//!
//! The provider says after every call what is left. What should be left follows from what was left
//! before, how fast the bucket fills and what we spent ourselves; the gap is what others spent. Over a
//! window the gaps add up to one difference, so that the rounding of single answers cancels out: the
//! error is one token per window plus what the refill is wrong by (see the tests). A bucket that is
//! full hides what others spend below the refill; that counts as nothing.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back counts.
const WINDOW: Duration = Duration::from_secs(600);
/// How many samples are kept at most; a burst of calls is one sample.
const MAX_SAMPLES: usize = 128;
/// Whole seconds say too little about how fast a bucket fills when it is full this soon.
const MIN_REFILL_TIME: Duration = Duration::from_secs(15);
/// Slower than this a bucket is not called emptying: rounding would be.
const MIN_DRAIN_RATE: f64 = 0.01;
const HOUR: f64 = 3600.0;

/// What an answer told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSample {
    /// When, in this process's time.
    pub at: Duration,
    /// How large the bucket is.
    pub limit: u32,
    /// What was left, this call taken off.
    pub remaining: u32,
    /// When the bucket would be full, in whole seconds.
    pub full_in: Option<Duration>,
    /// How many calls of ours were admitted since the sample before, this one included.
    pub own_calls: u32,
}

/// What to expect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetForecast {
    /// Tokens a second that flow in.
    pub refill: f64,
    /// Tokens a second that others spend.
    pub other_rate: f64,
    /// Tokens a second that we spend.
    pub own_rate: f64,
    /// What should be left now.
    pub remaining: f64,
    /// When nothing is left if all goes on like this; `None` if it does not come to that.
    pub empty_in: Option<Duration>,
}

/// The answers of late.
#[derive(Clone, Debug, Default)]
pub struct BudgetForecaster {
    samples: VecDeque<BudgetSample>,
}

impl BudgetForecaster {
    /// Takes one more answer into account.
    pub fn add_sample(&mut self, sample: BudgetSample) {
        match self.samples.back_mut() {
            // Another limit: nothing that was seen before can be compared.
            Some(last) if last.limit != sample.limit => self.samples.clear(),
            // Answers that were overtaken.
            Some(last) if last.at > sample.at => {
                last.own_calls += sample.own_calls;
                return;
            }
            _ => {}
        }
        self.samples.push_back(sample);
        let horizon = sample.at.saturating_sub(WINDOW);
        // One sample from before the window is where it begins.
        while self.samples.len() > MAX_SAMPLES
            || self.samples.get(1).is_some_and(|next| next.at <= horizon)
        {
            self.samples.pop_front();
        }
    }

    /// What to expect now; `None` before the first answer.
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

    /// From the answer that says most; else the provider's rule that a limit is per hour.
    fn refill_rate(&self, limit: u32) -> f64 {
        let told = |sample: &BudgetSample| {
            let full_in = sample.full_in.filter(|full_in| *full_in >= MIN_REFILL_TIME)?;
            Some((full_in, f64::from(limit.saturating_sub(sample.remaining))))
        };
        let best = self
            .samples
            .iter()
            .filter_map(told)
            .max_by_key(|(full_in, _)| *full_in);
        // The provider rounds; half a second is the middle.
        best.filter(|(_, spent)| *spent > 0.0)
            .map_or(f64::from(limit) / HOUR, |(full_in, spent)| {
                spent / (full_in.as_secs_f64() + 0.5)
            })
    }

    /// What others and we spend, a second.
    fn spending_rates(&self, refill: f64) -> (f64, f64) {
        let (mut others, mut ours, mut time) = (0.0, 0.0, 0.0);
        for (before, after) in self.samples.iter().zip(self.samples.iter().skip(1)) {
            let took = (after.at - before.at).as_secs_f64();
            time += took;
            ours += f64::from(after.own_calls);
            let was_full =
                after.remaining.saturating_add(after.own_calls) >= after.limit.saturating_sub(1);
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
#[path = "forecast_tests.rs"]
mod tests;

//! How the ledger changes by what a target says of its limits.
//!
//! What is learned can only hold calls back: no answer lets more through than the configuration.

use std::time::Duration;

use super::dialect::QuotaModel;
use super::ledger::BucketModel;
use super::lesson::{LimitHint, RemainingQuota};

/// The minimum time that a refusal closes the budget, so that "now" does not cause a hot loop.
const MIN_CLOSE: Duration = Duration::from_millis(100);
/// How long a refusal without a hint closes it, doubled with each until [`UNHINTED_MOST`].
const UNHINTED_CLOSE: Duration = Duration::from_secs(1);
const MAX_UNHINTED_CLOSE: Duration = Duration::from_secs(60);

impl BucketModel {
    /// Changes what may be spent by what an answer said. Returns whether it asked for more than
    /// is believed.
    pub(super) fn apply_hint(&mut self, lesson: &LimitHint, now: Duration) -> bool {
        self.refill(now);
        if let Some(left) = lesson.remaining_quota {
            self.apply_remaining(left, now);
        }
        match (lesson.refused, lesson.wait) {
            (true, wait) if lesson.steady => self.apply_empty_bucket(now, wait),
            (true, Some(wait)) => self.close(now, wait.max(MIN_CLOSE)),
            // Calls that were on their way together are refused together: one step, not many.
            (true, None) if self.closed_until(now).is_some() => {}
            (true, None) => {
                let wait = UNHINTED_CLOSE * 2u32.pow(self.unhinted.min(6));
                self.unhinted += 1;
                self.close(now, wait.min(MAX_UNHINTED_CLOSE));
            }
            (false, _) => self.unhinted = 0,
        }
        let most = self.config.longest_wait;
        lesson.wait.is_some_and(|wait| wait > most)
            || lesson.remaining_quota.is_some_and(|left| left.reset_after > most)
    }

    /// Paces calls ahead of the limit.
    fn apply_remaining(&mut self, left: RemainingQuota, now: Duration) {
        // Calls that are on their way may not be in the target's count yet.
        let others = self.in_flight().saturating_sub(1);
        let remaining = (left.remaining - others as f64).max(0.0);
        let over = left.reset_after.min(self.config.longest_wait);
        let until = now.saturating_add(over);
        match (left.quota, left.refill) {
            (QuotaModel::Leaky, refill) => {
                self.clip_tokens(remaining);
                if let Some(refill) = refill {
                    self.flow.limit_rate(refill, until);
                }
            }
            // The window is over; what was left in it says nothing about the next.
            (QuotaModel::Window, _) if over.is_zero() => {}
            (QuotaModel::Window, _) if left.remaining < 1.0 => self.close(now, over),
            (QuotaModel::Window, _) => {
                self.clip_tokens(remaining);
                let flows = (remaining - self.tokens()).max(0.0);
                self.flow.limit_rate(flows / over.as_secs_f64(), until);
            }
        }
    }

    /// No call for as long as this. What was granted and not yet sent waits again.
    fn close(&mut self, now: Duration, wait: Duration) {
        let until = now.saturating_add(wait.min(self.config.longest_wait));
        self.flow.close(now, until, self.config.ramp);
        self.revoke();
        self.clip_tokens(0.0);
    }

    /// A bucket that fills steadily is empty. After the time of one call it has one, and that one is
    /// for the most urgent lane: refused again and again, that lane still calls once in that time, as
    /// often as a call can be there. No ramp and no longer waits, which would only leave the call to
    /// others who share the bucket.
    fn apply_empty_bucket(&mut self, now: Duration, wait: Option<Duration>) {
        let one = Duration::try_from_secs_f64(1.0 / self.config.rate);
        let one = one.unwrap_or(self.config.longest_wait);
        let wait = wait.unwrap_or(one).max(one).max(MIN_CLOSE);
        let until = now.saturating_add(wait.min(self.config.longest_wait));
        self.flow.close(now, until, Duration::ZERO);
        self.revoke();
        self.clip_tokens(0.0);
        let lanes = self.lanes.iter_mut();
        let rest = lanes.fold(1.0, |rest, lane| lane.reserve.fill(rest));
        self.shared.fill(rest);
    }

    /// Leaves at most `most` tokens: what is shared goes first, then the least urgent reserves.
    fn clip_tokens(&mut self, most: f64) {
        let mut excess = (self.tokens() - most).max(0.0);
        excess = self.shared.drain(excess);
        for lane in self.lanes.iter_mut().rev() {
            excess = lane.reserve.drain(excess);
        }
    }

    pub(super) fn tokens(&self) -> f64 {
        let reserves: f64 = self.lanes.iter().map(|lane| lane.reserve.level()).sum();
        self.shared.level() + reserves
    }
}

//! The rate limit: a bucket that gains one token per tick and is told the time.
//!
//! Counted in whole tokens and nanoseconds, so that the headers of a run never depend on rounding.
//! It knows nothing of requests; it must not read a clock.

use jiff::Timestamp;

const SECOND: i128 = 1_000_000_000;

/// What the three RateLimit headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Tokens when full.
    pub limit: u64,
    /// Tokens left.
    pub remaining: u64,
    /// UNIX second at which the bucket is full again.
    pub reset: i64,
}

/// One budget, of a token or of a project.
#[derive(Clone, Debug)]
pub struct Bucket {
    limit: u64,
    level: u64,
    /// Nanoseconds per token.
    tick: i128,
    /// Since when the next token is on its way.
    since: i128,
    drain_on_refusal: bool,
}

impl Bucket {
    /// A full bucket. A rate that is not above zero never refills.
    #[must_use]
    pub fn new(limit: u64, refill_per_second: f64, drain_on_refusal: bool) -> Self {
        Self {
            limit,
            level: limit,
            tick: tick(refill_per_second),
            since: i128::MIN,
            drain_on_refusal,
        }
    }

    /// Takes one token. `Err` is a refusal: there was none.
    ///
    /// # Errors
    /// The bucket is empty.
    pub fn take(&mut self, now: Timestamp) -> Result<Level, Level> {
        self.refill(now.as_nanosecond());
        if self.level == 0 {
            if self.drain_on_refusal {
                self.since = now.as_nanosecond();
            }
            return Err(self.level(now));
        }
        self.level -= 1;
        Ok(self.level(now))
    }

    /// What is left, without taking anything.
    pub fn peek(&mut self, now: Timestamp) -> Level {
        self.refill(now.as_nanosecond());
        self.level(now)
    }

    /// Sets what is left, at most the limit.
    pub fn set(&mut self, now: Timestamp, remaining: u64) {
        self.refill(now.as_nanosecond());
        self.level = remaining.min(self.limit);
    }

    /// Sets what a full bucket holds; what is left never exceeds it.
    pub fn set_limit(&mut self, now: Timestamp, limit: u64, refill_per_second: f64) {
        self.refill(now.as_nanosecond());
        self.limit = limit;
        self.level = self.level.min(limit);
        self.tick = tick(refill_per_second);
        self.since = now.as_nanosecond();
    }

    /// Tokens it gains per second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a tick beyond 2^53 ns is 104 days")]
    pub fn refill_per_second(&self) -> f64 {
        SECOND as f64 / self.tick as f64
    }

    /// When the next token arrives; `None` when full.
    #[must_use]
    pub fn next_token(&self) -> Option<Timestamp> {
        if self.level >= self.limit {
            return None;
        }
        Timestamp::from_nanosecond(self.since.saturating_add(self.tick)).ok()
    }

    fn refill(&mut self, now: i128) {
        if self.level < self.limit {
            let gained = (now - self.since).max(0) / self.tick;
            let gained = u64::try_from(gained).unwrap_or(u64::MAX);
            self.level = self.limit.min(self.level.saturating_add(gained));
            self.since = self.since.saturating_add(self.tick.saturating_mul(i128::from(gained)));
        }
        // The first token to be spent starts the ticks anew.
        if self.level == self.limit {
            self.since = now;
        }
    }

    fn level(&self, now: Timestamp) -> Level {
        let missing = i128::from(self.limit - self.level);
        let full = now.as_nanosecond().saturating_add(self.tick.saturating_mul(missing));
        Level {
            limit: self.limit,
            remaining: self.level,
            reset: i64::try_from(full.div_euclid(SECOND)).unwrap_or(i64::MAX),
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a float to integer cast saturates, and a tick beyond 2^53 ns is 104 days"
)]
fn tick(refill_per_second: f64) -> i128 {
    if refill_per_second > 0.0 {
        ((SECOND as f64 / refill_per_second).round() as i128).max(1)
    } else {
        i128::from(i64::MAX)
    }
}

//! The rate limit: two one-minute windows, the older one fading out.
//!
//! Pure: it is told the time and reads no clock, and knows of requests only what their keys are. A
//! refused request is not counted.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

const SECOND: i128 = 1_000_000_000;
/// Length of a window in nanoseconds.
const WINDOW: i128 = 60 * SECOND;

/// Who asks, and for what: an identity and a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// A user or an address.
    pub identity: String,
    /// The path, without method and query.
    pub path: String,
}

/// What the three headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Requests a minute.
    pub limit: i64,
    /// How many more would pass now.
    pub remaining: i64,
    /// UNIX second in which the present window ends, its fraction cut off.
    pub reset: i64,
}

/// What was counted for a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Which window `current` speaks of.
    window: i128,
    current: u64,
    previous: u64,
}

/// The counts of all keys.
#[derive(Clone, Debug)]
pub struct Limiter {
    limit: i64,
    offset: i128,
    counts: BTreeMap<Key, Counts>,
    swept: i128,
}

impl Limiter {
    /// Nothing counted yet. Windows begin `offset` after the UTC minute. A limit that is not above
    /// zero lets everything pass.
    #[must_use]
    pub fn new(limit: i64, offset: Duration) -> Self {
        let offset = i128::try_from(offset.as_nanos()).unwrap_or(0);
        Self {
            limit,
            offset,
            counts: BTreeMap::new(),
            swept: i128::MIN,
        }
    }

    /// Requests a minute.
    #[must_use]
    pub fn limit(&self) -> i64 {
        self.limit
    }

    /// Changes the limit; what was counted stays.
    pub fn set_limit(&mut self, limit: i64) {
        self.limit = limit;
    }

    /// Counts a request. `None`: there is no limit.
    ///
    /// # Errors
    /// The limit is reached; the request is not counted.
    pub fn take(&mut self, now: Timestamp, key: &Key) -> Result<Option<Level>, Level> {
        if self.limit <= 0 {
            return Ok(None);
        }
        self.sweep(now);
        let used = self.used(now, key);
        let level = self.level(now, used);
        if level.remaining < 1 {
            return Err(level);
        }
        let window = self.window(now);
        let counts = self.counts.entry(key.clone()).or_default();
        *counts = counts.at(window);
        counts.current += 1;
        let remaining = level.remaining - 1;
        Ok(Some(Level { remaining, ..level }))
    }

    /// What a request with a key of its own would be told, such as one that may pass the limit by.
    #[must_use]
    pub fn fresh(&self, now: Timestamp) -> Option<Level> {
        let level = self.level(now, 1);
        (self.limit > 0).then_some(level)
    }

    /// What a request would be told that finds the limit reached.
    #[must_use]
    pub fn exhausted(&self, now: Timestamp) -> Level {
        self.level(now, self.limit)
    }

    /// Every key with something counted: how many in this window, how many in the last.
    pub fn counted(&self, now: Timestamp) -> impl Iterator<Item = (&Key, u64, u64)> {
        let window = self.window(now);
        let now = self.counts.iter().map(move |(key, it)| (key, it.at(window)));
        let some = now.filter(|(_, it)| it.current + it.previous > 0);
        some.map(|(key, it)| (key, it.current, it.previous))
    }

    /// Sets what was counted for a key.
    pub fn set(&mut self, now: Timestamp, key: Key, current: u64, previous: u64) {
        let counts = Counts {
            window: self.window(now),
            current,
            previous,
        };
        self.counts.insert(key, counts);
    }

    /// Requests that count against the limit now, as a whole number.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "counts are far below 2^52, and a window is less than 2^36 ns"
    )]
    fn used(&self, now: Timestamp, key: &Key) -> i64 {
        let counts = self.counts.get(key).copied().unwrap_or_default();
        let counts = counts.at(self.window(now));
        let elapsed = (now.as_nanosecond() - self.offset).rem_euclid(WINDOW);
        let left = (WINDOW - elapsed) as f64;
        let rate = counts.previous as f64 * left / WINDOW as f64 + counts.current as f64;
        rate.round() as i64
    }

    fn level(&self, now: Timestamp, used: i64) -> Level {
        let end = (self.window(now) + 1) * WINDOW + self.offset;
        Level {
            limit: self.limit,
            remaining: self.limit - used,
            reset: i64::try_from(end.div_euclid(SECOND)).unwrap_or(i64::MAX),
        }
    }

    /// The number of the window that a moment is in.
    fn window(&self, now: Timestamp) -> i128 {
        (now.as_nanosecond() - self.offset).div_euclid(WINDOW)
    }

    /// Forgets keys that no longer count, once a window.
    fn sweep(&mut self, now: Timestamp) {
        let window = self.window(now);
        if window > self.swept {
            self.counts.retain(|_, it| it.window + 1 >= window);
            self.swept = window;
        }
    }
}

impl Counts {
    /// The same seen from a window.
    fn at(self, window: i128) -> Self {
        let (current, previous) = match window - self.window {
            0 => (self.current, self.previous),
            1 => (0, self.current),
            _ => (0, 0),
        };
        Self {
            window,
            current,
            previous,
        }
    }
}

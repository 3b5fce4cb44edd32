//! How current a cache is, as far as its watch shows.

use std::time::Duration;

use tokio::time::Instant;

use crate::version::ResourceVersion;

/// How current a cache is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Freshness {
    /// A complete list has been applied at least once.
    pub synced: bool,
    /// When the last list, event or bookmark was received.
    pub last_activity: Option<Instant>,
    /// Since when the watch is down, or has been silent for so long that it counts as down.
    pub reconnecting_since: Option<Instant>,
    /// Every change up to this version is in the cache.
    pub list_version: Option<ResourceVersion>,
}

impl Freshness {
    /// Whether the cache is complete and its watch alive. Its contents may then lag as much as the
    /// watch, but no more.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.synced && self.reconnecting_since.is_none()
    }

    /// Time since the last list, event or bookmark; `None` before the first.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let last = self.last_activity?;
        Some(now.saturating_duration_since(last))
    }
}

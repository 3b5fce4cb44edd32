//! How current a cache is, as far as its watch can tell.

use std::time::Duration;

use tokio::time::Instant;

use crate::version::ResourceVersion;

/// How current a cache is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Freshness {
    /// A whole list has been taken over at least once.
    pub synced: bool,
    /// When the server was last heard: a list, an event, a bookmark.
    pub last_activity: Option<Instant>,
    /// Since when the watch is down, or has been silent for so long that it counts as down.
    pub reconnecting_since: Option<Instant>,
    /// Every change up to this version is in the cache.
    pub list_version: Option<ResourceVersion>,
}

impl Freshness {
    /// Whether the cache is complete and its watch alive. What it holds may then be as old as the
    /// watch lags, but no older.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.synced && self.reconnecting_since.is_none()
    }

    /// How long ago the server was last heard; `None` if it never was.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let last = self.last_activity?;
        Some(now.saturating_duration_since(last))
    }
}

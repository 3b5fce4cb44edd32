//! Every request that was made, with what it found in the bucket. Tokens never get here.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;

/// How many are kept; the oldest go first.
const KEPT: usize = 1_000_000;

/// One request.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Entry {
    /// Counts from 1.
    pub n: u64,
    /// When it arrived.
    pub time: Timestamp,
    /// The product in its User-Agent, else the label of its token; for noise, its name.
    pub client: String,
    /// Which token, as `token-1` for the first line of the token file; none is an unknown one.
    pub token: Option<String>,
    /// Which bucket paid.
    pub bucket: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// What came after the question mark.
    pub query: String,
    /// Status of the answer; none was lost on the way.
    pub status: Option<u16>,
    /// `error.code` of a refusal.
    pub code: Option<String>,
    /// What was left in the bucket afterwards.
    pub remaining: u64,
    /// What the header `x-aplomb-lane` said.
    pub lane: Option<String>,
    /// The fault that met it.
    pub fault: Option<u64>,
}

/// The requests of a run, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    last: u64,
}

impl Log {
    /// The number the next entry gets.
    pub(super) fn next(&self) -> u64 {
        self.last + 1
    }

    /// Adds a request; its number is given here.
    pub(super) fn push(&mut self, mut entry: Entry) {
        self.last += 1;
        entry.n = self.last;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Those after number `n`.
    pub(super) fn since(&self, n: u64) -> Vec<Entry> {
        let later = self.entries.partition_point(|entry| entry.n <= n);
        self.entries.range(later..).cloned().collect()
    }
}

//! The trace of a run: one line for each request, answer, event, effect and fault, with its time.
//!
//! Lines are byte-stable: the same run gives the same text. So nothing that is not a function of
//! the seed may be put into one: no addresses, no key material, no real time.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Collects the lines of one run. Cheap to clone; clones share the lines.
#[derive(Clone, Debug)]
pub struct Trace {
    started: Instant,
    /// How many lines are kept; the oldest go first.
    limit: usize,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Trace {
    /// An empty trace whose time zero is now, on tokio's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::of_last(usize::MAX)
    }

    /// The same, of which only the last `limit` lines are kept: for runs that are too long to keep.
    #[must_use]
    pub fn of_last(limit: usize) -> Self {
        Self {
            started: Instant::now(),
            limit,
            lines: Arc::default(),
        }
    }

    /// Time since the trace was begun.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The moment `after` the beginning.
    #[must_use]
    pub fn instant(&self, after: Duration) -> Instant {
        self.started + after
    }

    /// Adds a line: the time in seconds, who did it, and what.
    pub fn record(&self, who: &str, what: fmt::Arguments<'_>) {
        let now = self.elapsed();
        let mut line = String::with_capacity(96);
        let (seconds, micros) = (now.as_secs(), now.subsec_micros());
        write!(line, "{seconds}.{micros:06} {who} {what}").expect("a String takes any text");
        let mut lines = self.lock();
        if lines.len() >= self.limit {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    /// How many lines so far satisfy `predicate`.
    #[must_use]
    pub fn count(&self, predicate: impl Fn(&str) -> bool) -> usize {
        self.lock().iter().filter(|line| predicate(line)).count()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

/// Where two traces part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Line number, from 1.
    pub line: usize,
    /// That line of the first trace; `None` when it ended before.
    pub left: Option<String>,
    /// That line of the second trace.
    pub right: Option<String>,
}

impl Difference {
    /// The first line in which `left` and `right` differ; `None` when they are the same.
    #[must_use]
    pub fn first(left: &[String], right: &[String]) -> Option<Self> {
        let at = (0..left.len().max(right.len())).find(|&at| left.get(at) != right.get(at))?;
        Some(Self {
            line: at + 1,
            left: left.get(at).cloned(),
            right: right.get(at).cloned(),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |line: &Option<String>| line.clone().unwrap_or_else(|| "(ended)".to_owned());
        write!(
            f,
            "line {} differs\n  first:  {}\n  second: {}",
            self.line,
            show(&self.left),
            show(&self.right)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_carries_virtual_time_and_who() {
        let trace = Trace::new();
        tokio::time::advance(Duration::from_micros(61_000_250)).await;
        trace.record("alice", format_args!("effect {}", 7));
        assert_eq!(trace.lines(), ["61.000250 alice effect 7"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_memory_keeps_the_newest_lines() {
        let trace = Trace::of_last(2);
        (1..=3).for_each(|turn| trace.record("alice", format_args!("{turn}")));
        assert_eq!(trace.lines(), ["0.000000 alice 2", "0.000000 alice 3"]);
    }

    #[test]
    fn the_first_difference_is_found_also_past_the_end() {
        let short = vec!["a".to_owned(), "b".to_owned()];
        let long = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(Difference::first(&short, &short), None);
        let difference = Difference::first(&short, &long).expect("they differ");
        assert_eq!(difference.line, 3);
        assert!(difference.to_string().contains("first:  (ended)"), "{difference}");
        assert!(difference.to_string().contains("second: c"), "{difference}");
    }
}

//! Regular expressions that outlive a run.
//!
//! A `Regex` keeps its working memory in a pool that threads share, and making such memory draws
//! hash keys. Whether a run makes or finds it would depend on what ran before in the process, so
//! each thread works on a clone of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::{Captures, Error, Regex};

use crate::clock::aside;

thread_local! {
    static CLONES: RefCell<BTreeMap<usize, Regex>> = const { RefCell::new(BTreeMap::new()) };
}

/// A compiled pattern, for statics.
#[derive(Debug)]
pub(crate) struct Pattern {
    id: usize,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    pub(crate) fn new(source: &str) -> Result<Self, Error> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let regex = aside(|| Regex::new(source))?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            regex,
        })
    }

    /// Whether the pattern is found in `text`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.here(|regex| regex.is_match(text))
    }

    /// What the groups of the pattern found in `text`.
    pub(crate) fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.here(|regex| regex.captures(text))
    }

    fn here<T>(&self, search: impl FnOnce(&Regex) -> T) -> T {
        CLONES.with_borrow_mut(|clones| {
            search(clones.entry(self.id).or_insert_with(|| self.regex.clone()))
        })
    }
}

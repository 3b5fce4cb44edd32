//! Values that outlive a run, and regular expressions among them.
//!
//! A `Regex` keeps its working memory in a pool that threads share, and making such memory draws
//! hash keys. Whether a run makes or finds it would depend on what ran before in the process, so
//! each thread works on a clone of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::{Captures, Error, Regex};

/// Makes a value that outlives a run, such as a static, on a thread of its own: making it there
/// draws no hash keys from the thread of the run that happens to be the first to need it, which
/// would then differ from all later ones.
pub fn aside<T: Send>(make: impl FnOnce() -> T + Send) -> T {
    let made = std::thread::scope(|scope| scope.spawn(make).join());
    // Not `resume_unwind`: a hook on this thread would not see it.
    made.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        panic!("{}", text.unwrap_or("a value that is not text"))
    })
}

thread_local! {
    static CLONES: RefCell<BTreeMap<usize, Regex>> = const { RefCell::new(BTreeMap::new()) };
}

/// A compiled pattern, for statics.
#[derive(Debug)]
pub struct StaticRegex {
    id: usize,
    regex: Regex,
}

impl StaticRegex {
    /// Compiles a pattern.
    pub fn new(source: &str) -> Result<Self, Error> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let regex = aside(|| Regex::new(source))?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            regex,
        })
    }

    /// Whether the pattern is found in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.here(|regex| regex.is_match(text))
    }

    /// What the groups of the pattern found in `text`.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.here(|regex| regex.captures(text))
    }

    fn here<T>(&self, search: impl FnOnce(&Regex) -> T) -> T {
        CLONES.with_borrow_mut(|clones| search(clones.entry(self.id).or_insert_with(|| self.regex.clone())))
    }
}

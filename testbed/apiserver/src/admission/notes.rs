//! What is said about a call besides its outcome: warnings for the client, annotations for the
//! audit log. Travels with the call; clones share what was noted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Warnings and annotations of one call.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl Notes {
    /// Tells the client something, once.
    pub fn warn(&self, text: String) {
        let warnings = &mut self.noted().warnings;
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Adds an annotation to the audit event. What was said first stays.
    pub fn annotate(&self, key: String, value: String) {
        self.noted().annotations.entry(key).or_insert(value);
    }

    /// The warnings so far.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.noted().warnings.clone()
    }

    /// The annotations so far.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.noted().annotations.clone()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

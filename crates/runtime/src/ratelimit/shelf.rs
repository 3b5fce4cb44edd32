//! The budgets of a process that come and go with what it serves, for people to look at.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::{LimiterSnapshot, RateLimiter};

/// A budget that can be inspected.
pub trait InspectLimiter: Send + Sync {
    /// The target's name.
    fn name(&self) -> &str;

    /// What is there to spend.
    fn snapshot(&self) -> LimiterSnapshot;
}

impl InspectLimiter for RateLimiter {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn snapshot(&self) -> LimiterSnapshot {
        Self::snapshot(self)
    }
}

/// A list of budgets that can grow while it is shown. Clones share it.
#[derive(Clone, Default)]
pub struct LimiterRegistry(Arc<Mutex<Vec<Arc<dyn InspectLimiter>>>>);

impl LimiterRegistry {
    /// Adds a budget, and removes one with the same name: its credential was replaced.
    pub fn add(&self, budget: impl InspectLimiter + 'static) {
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.retain(|shown| shown.name() != budget.name());
        budgets.push(Arc::new(budget));
    }

    /// Those that are there.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<dyn InspectLimiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for LimiterRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all();
        let names = all.iter().map(|shown| shown.name());
        f.debug_list().entries(names).finish()
    }
}

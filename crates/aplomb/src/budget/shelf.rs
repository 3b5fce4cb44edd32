//! The budgets of a process that come and go with what it serves, for people to look at.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::Budget;

/// A list of budgets that can grow while it is shown. Clones share it.
#[derive(Clone, Default)]
pub struct Shelf(Arc<Mutex<Vec<Budget>>>);

impl Shelf {
    /// Shows one more, in the place of one of the same name: a credential was replaced.
    pub fn add(&self, budget: Budget) {
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.retain(|shown| shown.name() != budget.name());
        budgets.push(budget);
    }

    /// Those that are there.
    #[must_use]
    pub fn all(&self) -> Vec<Budget> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

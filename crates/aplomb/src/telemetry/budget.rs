//! Metrics of budgets and of the calls that spend from them.

use prometheus_client::registry::Registry;

/// Metrics of budgets and of the calls that spend from them.
#[derive(Debug, Default)]
pub struct BudgetFamilies {}

impl BudgetFamilies {
    pub(super) fn register(&self, _registry: &mut Registry) {}
}

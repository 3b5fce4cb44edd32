//! Metrics of leader election.

use prometheus_client::registry::Registry;

/// Metrics of leader election.
#[derive(Debug, Default)]
pub struct LeaseFamilies {}

impl LeaseFamilies {
    pub(super) fn register(&self, _registry: &mut Registry) {}
}

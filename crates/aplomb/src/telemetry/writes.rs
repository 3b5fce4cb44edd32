//! Metrics of writes, of those that were not needed, and of conflicts.

use prometheus_client::registry::Registry;

/// Metrics of writes, of those that were not needed, and of conflicts.
#[derive(Debug, Default)]
pub struct WriteFamilies {}

impl WriteFamilies {
    pub(super) fn register(&self, _registry: &mut Registry) {}
}

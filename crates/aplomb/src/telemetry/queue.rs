//! Metrics of the queue, under controller-runtime's names where it has them.

use prometheus_client::registry::Registry;

/// Metrics of the queue, under controller-runtime's names where it has them.
#[derive(Debug, Default)]
pub struct QueueFamilies {}

impl QueueFamilies {
    pub(super) fn register(&self, _registry: &mut Registry) {}
}

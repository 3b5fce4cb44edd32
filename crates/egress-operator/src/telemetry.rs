//! One struct per event, which writes the log line and updates the metric together.
//!
//! Every metric of the operator is defined in this module, and no other code updates metrics. The
//! state of a StableEgress is kept as a snapshot and rendered on each scrape, so that the series of
//! a deleted node or object disappear, and a standby replica exports none.

mod gateway;
mod moves;
mod provider;
mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aplomb::leadership::fence::Fence;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

pub use self::gateway::{GatewayDecided, GatewayRemoved};
pub use self::moves::{DeadlineBreached, MoveEnded, MoveStarted, ProbeFailed};
pub use self::provider::{ForecastReported, HcloudOperation, ProviderCall};

/// All metrics of the operator. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct EgressMetrics(Arc<Mutex<EgressCounters>>);

/// The recorded values.
#[derive(Debug, Default)]
pub struct EgressCounters {
    gateways: BTreeMap<String, gateway::EgressSnapshot>,
    tallies: BTreeMap<String, moves::MoveCounters>,
    accounts: BTreeMap<String, provider::AccountCounters>,
    /// Leadership: a replica without it exports no state.
    fence: Option<Fence>,
}

/// An event that changes a metric, writes a log line, or both.
pub trait Occurrence {
    /// Updates the metrics and writes the log line.
    fn emit(self, ledger: &mut EgressCounters);
}

impl EgressMetrics {
    /// Counts and logs an event.
    pub fn emit(&self, occurrence: impl Occurrence) {
        occurrence.emit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Exports current state only while `fence` is open, since otherwise another replica does.
    pub fn set_fence(&self, fence: &Fence) {
        let mut ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.fence.get_or_insert_with(|| fence.clone());
    }

    /// Registers every metric under its public name.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for EgressMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leads = ledger.fence.as_ref().is_none_or(Fence::is_open);
        if leads {
            gateway::encode(&ledger.gateways, &mut encoder)?;
        }
        moves::encode(&ledger.tallies, &mut encoder)?;
        provider::encode(&ledger.accounts, leads, &mut encoder)
    }
}

#[cfg(test)]
mod tests;

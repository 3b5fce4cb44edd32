//! One struct per occurrence, which writes the log line and moves the metric together.
//!
//! Every metric name of the operator stands in a file of this module, and nothing else may touch a
//! metric. What a StableEgress is now is kept as a picture and shown at each scrape, so that a node or
//! an object that is gone takes its series along, and a standby shows none at all.

mod gateway;
mod moves;
mod provider;
mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aplomb::fence::Fence;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

pub use self::gateway::{GatewayDecided, GatewayRemoved};
pub use self::moves::{DeadlineBreached, MoveEnded, MoveStarted, ProbeFailed};
pub use self::provider::{ForecastReported, HcloudOperation, ProviderCall};

/// Every metric of the operator. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct EgressMetrics(Arc<Mutex<EgressCounters>>);

/// What has occurred, in the form in which it is shown.
#[derive(Debug, Default)]
pub struct EgressCounters {
    gateways: BTreeMap<String, gateway::EgressSnapshot>,
    tallies: BTreeMap<String, moves::MoveCounters>,
    accounts: BTreeMap<String, provider::AccountCounters>,
    /// The right to act: without it somebody else knows better.
    fence: Option<Fence>,
}

/// Something worth a metric, a log line or both.
pub trait Occurrence {
    /// Moves the metrics and writes the log line.
    fn emit(self, ledger: &mut EgressCounters);
}

impl EgressMetrics {
    /// Counts and logs what occurred.
    pub fn emit(&self, occurrence: impl Occurrence) {
        occurrence.emit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Shows what is now only while `fence` is open: the rest of the time another replica does.
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

//! One struct per occurrence, which writes the log line and moves the metric together.
//!
//! Every metric name of the operator stands in a file of this module, and nothing else may touch a
//! metric. What an object is now is kept as a picture and shown at each scrape, so that an object that is
//! gone takes its series along, and a standby shows none at all. No label holds the name of a key.
//!
//! | metric | labels besides `server` | what it says |
//! |---|---|---|
//! | `aplomb_coder_requests_total` | `endpoint`, `code` | calls, by status or `no_answer` |
//! | `aplomb_coder_request_seconds` | | how long calls took (histogram) |
//! | `aplomb_coder_rate_limited_total` | `endpoint` | calls that were answered by a 429 |
//! | `aplomb_coder_put_off_total` | `reason` = `gate`, `budget`, `bypass` | calls that were not made yet |
//! | `aplomb_coder_budget_limit` | `endpoint` | the rate limit of a path, as last told |
//! | `aplomb_coder_budget_remaining` | `endpoint` | what is left of it, as last told |
//! | `aplomb_coder_bypass_refused_total` | | 412 or 428 to the bypass header |
//! | `aplomb_coder_bypass_ineffective_total` | | a bypass that the server counts all the same |
//! | `aplomb_coder_stale_calls_total` | | calls during which the lease was lost |
//!
//! | metric | labels besides `kind`, `namespace`, `name` | what it says |
//! |---|---|---|
//! | `aplomb_coder_ready` | | 1 if the condition Ready is True |
//! | `aplomb_coder_state` | `reason` | 1 for the reason of the condition Ready |
//! | `aplomb_coder_throttled` | | 1 while the server refuses for its rate limit |
//! | `aplomb_coder_daemons_connected` | | daemons that the server sees with the current key |
//! | `aplomb_coder_daemons_wanted` | | daemons that there should be |
//! | `aplomb_coder_rotating_since_timestamp_seconds` | | since when what was replaced waits to be deleted |
//! | `aplomb_coder_deleting_since_timestamp_seconds` | | since when a deletion waits |
//! | `aplomb_coder_rotations_total` | `reason` | keys or tokens that were replaced |
//!
//! | metric | labels | what it says |
//! |---|---|---|
//! | `aplomb_coder_orphaned_total` | `kind`, `server` | keys or proxies left behind at the server |
//! | `aplomb_coder_rotation_stage_seconds` | `kind`, `stage` | how long each stage took (histogram) |

mod calls;
mod objects;
mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aplomb::fence::Fence;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::object::Object;

pub use self::calls::{
    BypassIneffective, BypassRefused, CallCompleted, CallDeferred, CallStale, DeferReason,
    LimitReported,
};
pub use self::objects::{
    KeyOrphaned, KeyRotated, ObjectDecided, ObjectRemoved, RotationStage, RotationStageEnded,
};

/// Every metric of the operator. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CoderMetrics(Arc<Mutex<CoderCounters>>);

/// What has occurred, in the form in which it is shown.
#[derive(Debug, Default)]
pub struct CoderCounters {
    servers: BTreeMap<String, calls::ServerCounters>,
    objects: BTreeMap<Object, objects::ObjectSnapshot>,
    rotations: BTreeMap<Object, objects::Rotations>,
    orphans: BTreeMap<(&'static str, String), u64>,
    stages: objects::Stages,
    /// The right to act: without it somebody else knows better.
    fence: Option<Fence>,
}

/// Something worth a metric, a log line or both.
pub trait Occurrence {
    /// Moves the metrics and writes the log line.
    fn emit(self, ledger: &mut CoderCounters);
}

impl CoderMetrics {
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

impl Collector for CoderMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leads = ledger.fence.as_ref().is_none_or(Fence::is_open);
        calls::encode(&ledger.servers, leads, &mut encoder)?;
        objects::encode(&ledger, leads, &mut encoder)
    }
}

#[cfg(test)]
mod tests;

//! The state of the process as `/debug/state.json` shows it. Ages are in seconds.
//!
//! Names, times and counts only: no field may carry what an object contains.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::version::ResourceVersion;
use crate::{ratelimit, informer, leadership};

/// Everything a person asks first when a controller seems to stand still.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DebugState {
    /// How long the process has been running.
    pub uptime: f64,
    /// The controllers.
    pub controllers: Vec<ControllerState>,
    /// The watches behind the caches.
    pub watches: Vec<WatchHealth>,
    /// The budgets, by target.
    pub budgets: Vec<ratelimit::LimiterSnapshot>,
    /// The leases this replica contends for.
    pub leases: Vec<leadership::LeaseStatus>,
    /// The tasks that must live as long as the process does.
    pub tasks: Vec<TaskState>,
    /// What came in and went out of each kind.
    pub kinds: Vec<KindCounters>,
    /// Why the program itself wants no traffic, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready: Option<String>,
}

impl DebugState {
    /// The state of both as one. What they share is told once.
    #[must_use]
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.uptime = self.uptime.max(other.uptime);
        self.controllers.extend(other.controllers);
        self.watches.extend(other.watches);
        for budget in other.budgets {
            if !self
                .budgets
                .iter()
                .any(|known| known.target == budget.target)
            {
                self.budgets.push(budget);
            }
        }
        self.leases.extend(other.leases);
        self.tasks.extend(other.tasks);
        for tally in other.kinds {
            if !self.kinds.iter().any(|known| known.kind == tally.kind) {
                self.kinds.push(tally);
            }
        }
        self.unready = self.unready.or(other.unready);
        self
    }
}

/// What came in and went out of one kind, since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindCounters {
    /// The kind.
    pub kind: String,
    /// Events that a lens let through.
    pub events_passed: u64,
    /// Events that changed nothing anybody reads, or that this process caused itself.
    pub events_dropped: u64,
    /// Writes that the server took.
    pub writes: u64,
    /// Writes that would have changed nothing, and were not sent.
    pub writes_suppressed: u64,
    /// Writes that lost to another writer.
    pub conflicts: u64,
}

/// A controller, its queue and its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerState {
    /// Its name.
    pub name: String,
    /// Whether it takes keys from its queue: a standby does not.
    pub open: bool,
    /// How many runs it may have at once.
    pub concurrency: usize,
    /// The lanes of its queue, most urgent first.
    pub lanes: Vec<QueueLaneState>,
    /// How many keys wait for a time or for a version.
    pub waiting: usize,
    /// The runs in progress.
    pub running: Vec<RunState>,
    /// The keys that are not run because their reconcile keeps failing by a defect.
    pub quarantined: Vec<String>,
    /// What came in last, newest first.
    pub triggers: Vec<TriggerRecord>,
}

/// A lane of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueLaneState {
    /// Its name.
    pub name: Cow<'static, str>,
    /// How many keys are in it.
    pub depth: usize,
    /// How long the oldest of them has waited.
    pub oldest: Option<f64>,
}

/// A run in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    /// The object.
    pub key: String,
    /// In which lane it had waited.
    pub lane: Cow<'static, str>,
    /// What triggered it.
    pub reasons: Vec<String>,
    /// When it began, by the wall clock.
    pub started: Timestamp,
    /// For how long it has been running.
    pub running: f64,
    /// After how long it should have been stopped: past this, the process makes no progress.
    pub bound: f64,
}

/// Something that put a key into a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerRecord {
    /// The key.
    pub key: String,
    /// Why.
    pub reason: String,
    /// In which lane.
    pub lane: Cow<'static, str>,
    /// When, by the wall clock.
    pub at: Timestamp,
}

/// A watch and the cache behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchHealth {
    /// The kind, with its scope where it has one.
    pub name: String,
    /// Whether nothing may run without it.
    pub required: bool,
    /// Whether its cache has been complete at least once.
    pub synced: bool,
    /// How many objects are in it.
    pub objects: usize,
    /// How long ago anything was last heard on it; `None` if nothing was yet.
    pub age: Option<f64>,
    /// For how long it has been trying to reconnect.
    pub reconnecting: Option<f64>,
    /// The version it has seen everything up to.
    pub version: Option<String>,
    /// Why it is not well, if it is not.
    pub trouble: Option<String>,
}

impl WatchHealth {
    /// A watch of a hub, as it is now.
    #[must_use]
    pub fn from_informer(state: &informer::InformerStatus, required: bool) -> Self {
        let ago = |moment: Instant| moment.elapsed().as_secs_f64();
        let freshness = &state.freshness;
        Self {
            name: format!("{} in {}", state.kind, state.scope),
            required,
            synced: freshness.synced,
            objects: state.objects,
            age: freshness.last_activity.map(ago),
            reconnecting: freshness.reconnecting_since.map(ago),
            version: freshness
                .list_version
                .as_ref()
                .map(ResourceVersion::to_string),
            trouble: state.trouble.clone(),
        }
    }
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskState {
    /// Its name.
    pub name: String,
    /// Why it is dead, if it is.
    pub dead: Option<String>,
}

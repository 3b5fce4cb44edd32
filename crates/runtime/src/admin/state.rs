//! The state of the process as `/debug/state.json` shows it. Ages are in seconds.
//!
//! Names, times and counts only: no field may contain data of an object.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::key::ResourceVersion;
use crate::{informer, leadership, ratelimit};

/// The state that explains why a controller does not make progress.
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
    /// The tasks that must run as long as the process.
    pub tasks: Vec<TaskState>,
    /// Events and writes per kind.
    pub kinds: Vec<KindCounters>,
    /// Why the program itself is not ready for traffic, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready: Option<String>,
}

impl DebugState {
    /// The combined state of both. Shared parts appear once.
    #[must_use]
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.uptime = self.uptime.max(other.uptime);
        self.controllers.extend(other.controllers);
        self.watches.extend(other.watches);
        for budget in other.budgets {
            if !self.budgets.iter().any(|known| known.target == budget.target) {
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

/// Events and writes of one kind, since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindCounters {
    /// The kind.
    pub kind: String,
    /// Events that passed a lens.
    pub events_passed: u64,
    /// Events that changed no field in use, or that this process caused itself.
    pub events_dropped: u64,
    /// Writes that the server accepted.
    pub writes: u64,
    /// Writes that were not sent because they would have changed nothing.
    pub writes_suppressed: u64,
    /// Writes that failed with a conflict.
    pub conflicts: u64,
}

/// A controller, its queue and its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerState {
    /// Its name.
    pub name: String,
    /// Whether it takes keys from its queue. A standby does not.
    pub open: bool,
    /// The maximum number of concurrent runs.
    pub concurrency: usize,
    /// The lanes of its queue, most urgent first.
    pub lanes: Vec<QueueLaneState>,
    /// The number of keys that wait for a time or for a version.
    pub waiting: usize,
    /// The runs in progress.
    pub running: Vec<RunState>,
    /// The keys that do not run because their reconcile keeps failing.
    pub quarantined: Vec<String>,
    /// The last triggers, newest first.
    pub triggers: Vec<TriggerRecord>,
}

/// A lane of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueLaneState {
    /// Its name.
    pub name: Cow<'static, str>,
    /// The number of keys in it.
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
    /// The lane it was taken from.
    pub lane: Cow<'static, str>,
    /// What triggered it.
    pub reasons: Vec<String>,
    /// When it started, by the wall clock.
    pub started: Timestamp,
    /// How long it has been running.
    pub running: f64,
    /// After how long it should have been stopped. Beyond this, the process makes no progress.
    pub bound: f64,
}

/// A trigger that put a key into a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerRecord {
    /// The key.
    pub key: String,
    /// The reason.
    pub reason: String,
    /// The lane.
    pub lane: Cow<'static, str>,
    /// The time, by the wall clock.
    pub at: Timestamp,
}

/// A watch and the cache behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchHealth {
    /// The kind, with its scope if it has one.
    pub name: String,
    /// Whether the controllers wait for it.
    pub required: bool,
    /// Whether its cache has been complete at least once.
    pub synced: bool,
    /// The number of objects in it.
    pub objects: usize,
    /// Time since the last event or bookmark; `None` before the first one.
    pub age: Option<f64>,
    /// How long it has been trying to reconnect.
    pub reconnecting: Option<f64>,
    /// The version up to which all changes are in the cache.
    pub version: Option<String>,
    /// What is wrong, if anything.
    pub trouble: Option<String>,
}

impl WatchHealth {
    /// The current state of a watch of a hub.
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
            version: freshness.list_version.as_ref().map(ResourceVersion::to_string),
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
    /// Why it ended, if it did.
    pub dead: Option<String>,
}

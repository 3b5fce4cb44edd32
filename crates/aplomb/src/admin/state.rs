//! The state of the process as `/debug/state.json` shows it. Ages are in seconds.
//!
//! Names, times and counts only: no field may carry what an object contains.

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::Instant;

use crate::version::Version;
use crate::{budget, hub, lease};

/// Everything a person asks first when a controller seems to stand still.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// How long the process has been running.
    pub uptime: f64,
    /// The controllers.
    pub controllers: Vec<Controller>,
    /// The watches behind the caches.
    pub watches: Vec<Watch>,
    /// The budgets, by target.
    pub budgets: Vec<budget::Snapshot>,
    /// The leases this replica contends for.
    pub leases: Vec<lease::Status>,
    /// The tasks that must live as long as the process does.
    pub tasks: Vec<Task>,
    /// Why the program itself wants no traffic, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready: Option<String>,
}

/// A controller, its queue and its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Controller {
    /// Its name.
    pub name: String,
    /// Whether it takes keys from its queue: a standby does not.
    pub open: bool,
    /// How many runs it may have at once.
    pub concurrency: usize,
    /// The lanes of its queue, most urgent first.
    pub lanes: Vec<Lane>,
    /// How many keys wait for a time or for a version.
    pub waiting: usize,
    /// The runs in progress.
    pub running: Vec<Run>,
    /// The keys that are not run because their reconcile keeps failing by a defect.
    pub quarantined: Vec<String>,
    /// What came in last, newest first.
    pub triggers: Vec<Trigger>,
}

/// A lane of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// Its name.
    pub name: &'static str,
    /// How many keys are in it.
    pub depth: usize,
    /// How long the oldest of them has waited.
    pub oldest: Option<f64>,
}

/// A run in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The object.
    pub key: String,
    /// In which lane it had waited.
    pub lane: &'static str,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// The key.
    pub key: String,
    /// Why.
    pub reason: String,
    /// In which lane.
    pub lane: &'static str,
    /// When, by the wall clock.
    pub at: Timestamp,
}

/// A watch and the cache behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
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

impl Watch {
    /// A watch of a hub, as it is now.
    #[must_use]
    pub fn of(state: &hub::WatchState, required: bool) -> Self {
        let ago = |moment: Instant| moment.elapsed().as_secs_f64();
        let freshness = &state.freshness;
        Self {
            name: format!("{} in {}", state.kind, state.scope),
            required,
            synced: freshness.synced,
            objects: state.objects,
            age: freshness.last_activity.map(ago),
            reconnecting: freshness.reconnecting_since.map(ago),
            version: freshness.list_version.as_ref().map(Version::to_string),
            trouble: state.trouble.clone(),
        }
    }
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Why it is dead, if it is.
    pub dead: Option<String>,
}

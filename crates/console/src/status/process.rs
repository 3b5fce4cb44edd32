//! The state of the engines of a process: leadership, informers, rate limits and queues.
//!
//! Names, times and counts, from `/debug/state.json`; ages are in seconds.

use aplomb::admin::DebugState;
use aplomb::ratelimit::{LimiterLaneSnapshot, LimiterSnapshot};
use serde::{Deserialize, Serialize};

/// One engine of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorRow {
    /// The engine's name, such as `aplomb-tunnel`.
    pub name: String,
    /// The identity of this replica, if it uses leader election.
    pub identity: Option<String>,
    /// Whether it reconciles: it leads, or needs no leader.
    pub leading: bool,
    /// The holder of the lease, as last seen.
    pub holder: Option<String>,
    /// How often the lease has changed hands.
    pub transitions: i32,
    pub uptime: f64,
    /// Why it is unhealthy; empty if it is healthy.
    pub trouble: Vec<String>,
}

/// An informer and its cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WatchRow {
    /// The engine it belongs to.
    pub operator: String,
    /// The kind, with its scope if it has one.
    pub name: String,
    /// Whether no controller runs before it has synced.
    pub required: bool,
    /// Whether its cache has synced at least once.
    pub synced: bool,
    /// How many objects are in its cache.
    pub objects: usize,
    /// How long ago its last event or bookmark arrived.
    pub age: Option<f64>,
    /// How long it has been reconnecting.
    pub reconnecting: Option<f64>,
    /// Why it is unhealthy, if it is.
    pub trouble: Option<String>,
}

/// The rate limit of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimiterRow {
    /// The engine it belongs to; empty if engines share it.
    pub operator: String,
    pub target: String,
    /// Calls per second at this moment.
    pub rate: f64,
    /// The maximum number of calls, if it is known.
    pub capacity: Option<f64>,
    /// How many calls are left, including reserves.
    pub available: f64,
    /// How many of them are reserved for urgent lanes.
    pub reserve: f64,
    /// How long no call is allowed.
    pub closed_for_seconds: Option<f64>,
    /// The lanes, most urgent first.
    pub lanes: Vec<LimiterLaneRow>,
}

/// A lane of a rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimiterLaneRow {
    pub name: String,
    /// Calls it could send at once.
    pub tokens: f64,
    /// How many of them no other lane may use.
    pub reserve: f64,
    pub waiting: usize,
    pub in_flight: usize,
}

/// The queue of one controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueRow {
    /// The engine it belongs to.
    pub operator: String,
    pub controller: String,
    /// Whether workers take keys from it.
    pub open: bool,
    /// How many reconciles may run at once.
    pub concurrency: usize,
    /// Its lanes, most urgent first.
    pub lanes: Vec<LaneRow>,
    /// How many keys wait for a time or a resource version.
    pub waiting: usize,
    pub running: Vec<RunRow>,
    /// Keys that are stopped because their reconcile keeps failing.
    pub quarantined: Vec<String>,
}

/// A lane of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaneRow {
    pub name: String,
    /// How many keys are in it.
    pub depth: usize,
    /// How long the oldest of them has waited.
    pub oldest: Option<f64>,
}

/// A run in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunRow {
    pub key: String,
    /// The lane it came from.
    pub lane: String,
    /// How long it has been running.
    pub running: f64,
}

/// Events and writes of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KindRow {
    pub kind: String,
    /// Events that changed a field that is read.
    pub events_passed: u64,
    /// Events that changed no field that is read.
    pub events_dropped: u64,
    /// Writes that were sent.
    pub writes: u64,
    /// Writes that were skipped because they would change nothing.
    pub writes_suppressed: u64,
    /// Writes that were rejected with a conflict.
    pub conflicts: u64,
}

pub(super) fn operator_rows(engines: &[(String, DebugState)]) -> Vec<OperatorRow> {
    let operator = |(name, state): &(String, DebugState)| {
        let lease = state.leases.first();
        OperatorRow {
            name: name.clone(),
            identity: lease.map(|it| it.identity.clone()),
            leading: state.leases.iter().all(|it| it.leading),
            holder: lease.and_then(|it| it.holder.clone()),
            transitions: lease.map_or(0, |it| it.transitions),
            uptime: state.uptime,
            trouble: state.readiness_failures(),
        }
    };
    engines.iter().map(operator).collect()
}

pub(super) fn watch_rows(engines: &[(String, DebugState)]) -> Vec<WatchRow> {
    let of = |(operator, state): &(String, DebugState)| {
        let watch = |it: &aplomb::admin::WatchHealth| WatchRow {
            operator: operator.clone(),
            name: it.name.clone(),
            required: it.required,
            synced: it.synced,
            objects: it.objects,
            age: it.age,
            reconnecting: it.reconnecting,
            trouble: it.trouble.clone(),
        };
        state.watches.iter().map(watch).collect::<Vec<_>>()
    };
    engines.iter().flat_map(of).collect()
}

/// A target that several engines share is listed once.
pub(super) fn budget_rows(engines: &[(String, DebugState)]) -> Vec<LimiterRow> {
    let mut all: Vec<LimiterRow> = Vec::new();
    for (operator, state) in engines {
        for snapshot in &state.budgets {
            match all.iter_mut().find(|it| it.target == snapshot.target) {
                Some(shared) => shared.operator.clear(),
                None => all.push(budget_row(operator, snapshot)),
            }
        }
    }
    all.sort_by(|a, b| a.target.cmp(&b.target));
    all
}

fn budget_row(operator: &str, snapshot: &LimiterSnapshot) -> LimiterRow {
    let lane = |it: &LimiterLaneSnapshot| LimiterLaneRow {
        name: it.name.clone(),
        tokens: it.tokens,
        reserve: it.reserve,
        waiting: it.waiting,
        in_flight: it.in_flight,
    };
    let reserve: f64 = snapshot.lanes.iter().map(|it| it.reserve).sum();
    // A lane counts the shared calls in addition to its own reserve.
    let shared = snapshot.lanes.first().map_or(0.0, |it| it.tokens - it.reserve);
    LimiterRow {
        operator: operator.to_owned(),
        target: snapshot.target.clone(),
        rate: snapshot.rate,
        capacity: Some(snapshot.capacity).filter(|it| *it > 0.0),
        available: shared.max(0.0) + reserve,
        reserve,
        closed_for_seconds: snapshot.closed_for_seconds,
        lanes: snapshot.lanes.iter().map(lane).collect(),
    }
}

pub(super) fn queue_rows(engines: &[(String, DebugState)]) -> Vec<QueueRow> {
    let of = |(operator, state): &(String, DebugState)| {
        let queue = |it: &aplomb::admin::ControllerState| queue_row(operator, it);
        state.controllers.iter().map(queue).collect::<Vec<_>>()
    };
    engines.iter().flat_map(of).collect()
}

fn queue_row(operator: &str, controller: &aplomb::admin::ControllerState) -> QueueRow {
    let lane = |it: &aplomb::admin::QueueLaneState| LaneRow {
        name: it.name.to_string(),
        depth: it.depth,
        oldest: it.oldest,
    };
    let run = |it: &aplomb::admin::RunState| RunRow {
        key: it.key.clone(),
        lane: it.lane.to_string(),
        running: it.running,
    };
    QueueRow {
        operator: operator.to_owned(),
        controller: controller.name.clone(),
        open: controller.open,
        concurrency: controller.concurrency,
        lanes: controller.lanes.iter().map(lane).collect(),
        waiting: controller.waiting,
        running: controller.running.iter().map(run).collect(),
        quarantined: controller.quarantined.clone(),
    }
}

/// Engines of one process share their counters, so each kind is listed once.
pub(super) fn kind_rows(engines: &[(String, DebugState)]) -> Vec<KindRow> {
    let mut all: Vec<KindRow> = Vec::new();
    for tally in engines.iter().flat_map(|(_, state)| &state.kinds) {
        if !all.iter().any(|it| it.kind == tally.kind) {
            all.push(KindRow {
                kind: tally.kind.clone(),
                events_passed: tally.events_passed,
                events_dropped: tally.events_dropped,
                writes: tally.writes,
                writes_suppressed: tally.writes_suppressed,
                conflicts: tally.conflicts,
            });
        }
    }
    all.sort_by(|a, b| a.kind.cmp(&b.kind));
    all
}

//! What the engines of a process say of themselves: who leads, what is fresh, what may be spent, what waits.
//!
//! Names, times and counts, as `/debug/state.json` has them; ages are in seconds.

use aplomb::admin::DebugState;
use aplomb::budget::{LimiterLaneSnapshot, LimiterSnapshot};
use serde::{Deserialize, Serialize};

/// One engine of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorRow {
    /// The engine's name, such as `aplomb-tunnel`.
    pub name: String,
    /// Who this replica is, where it contends for a lease.
    pub identity: Option<String>,
    /// Whether it acts: it leads, or needs no leader.
    pub leading: bool,
    /// Who holds the lease, as far as is known.
    pub holder: Option<String>,
    /// How often the lease has changed hands.
    pub transitions: i32,
    /// How long it has been running.
    pub uptime: f64,
    /// Why it is not well; empty if it is.
    pub trouble: Vec<String>,
}

/// A watch and the cache behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WatchRow {
    /// Whose it is.
    pub operator: String,
    /// The kind, with its scope where it has one.
    pub name: String,
    /// Whether nothing may run without it.
    pub required: bool,
    /// Whether its cache has been complete at least once.
    pub synced: bool,
    /// How many objects are in it.
    pub objects: usize,
    /// How long ago anything was last heard on it.
    pub age: Option<f64>,
    /// For how long it has been trying to reconnect.
    pub reconnecting: Option<f64>,
    /// Why it is not well, if it is not.
    pub trouble: Option<String>,
}

/// What may be spent on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimiterRow {
    /// Whose it is; empty where engines share it.
    pub operator: String,
    /// The target's name.
    pub target: String,
    /// Calls a second at this moment.
    pub rate: f64,
    /// How many calls it can hold at most, where that is known.
    pub capacity: Option<f64>,
    /// How many calls are left, reserves included.
    pub available: f64,
    /// How many of them are kept for lanes that cannot wait.
    pub reserve: f64,
    /// For how long no call is allowed.
    pub closed_for_seconds: Option<f64>,
    /// The lanes, most urgent first.
    pub lanes: Vec<LimiterLaneRow>,
}

/// A lane of a budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimiterLaneRow {
    /// Its name.
    pub name: String,
    /// Calls it could make at once.
    pub tokens: f64,
    /// How many of them nobody else may make.
    pub reserve: f64,
    /// Calls that wait.
    pub waiting: usize,
    /// Calls on their way.
    pub in_flight: usize,
}

/// The queue of one controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueRow {
    /// Whose it is.
    pub operator: String,
    /// The controller's name.
    pub controller: String,
    /// Whether it takes keys from its queue.
    pub open: bool,
    /// How many runs it may have at once.
    pub concurrency: usize,
    /// Its lanes, most urgent first.
    pub lanes: Vec<LaneRow>,
    /// How many keys wait for a time or for a version.
    pub waiting: usize,
    /// The runs in progress.
    pub running: Vec<RunRow>,
    /// Keys that are not run because their reconcile keeps failing by a defect.
    pub quarantined: Vec<String>,
}

/// A lane of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaneRow {
    /// Its name.
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
    /// The object.
    pub key: String,
    /// In which lane it had waited.
    pub lane: String,
    /// For how long it has been running.
    pub running: f64,
}

/// What became of the events and writes of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KindRow {
    /// The kind.
    pub kind: String,
    /// Events that changed something somebody reads.
    pub events_passed: u64,
    /// Events that changed nothing anybody reads.
    pub events_dropped: u64,
    /// Writes that were sent.
    pub writes: u64,
    /// Writes that were not sent because nothing would have changed.
    pub writes_suppressed: u64,
    /// Writes that somebody else was faster than.
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
            trouble: state.trouble(),
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

/// A target that several engines spend on is shown once.
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
    // Each lane counts what all share beside its own reserve.
    let shared = snapshot
        .lanes
        .first()
        .map_or(0.0, |it| it.tokens - it.reserve);
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

/// Engines of one process count in one place, so that a kind is told once.
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

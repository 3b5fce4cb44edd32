//! Counters of a StableEgress: moves with their stages, and failed probes.
//!
//! Counters start at 0 when the object is first seen, not with the first event: Prometheus sees no increase if a series
//! starts at 1.

use std::collections::BTreeMap;
use std::fmt;

use aplomb_api::DurationString;
use aplomb_api::egress::{MoveCause, MoveStages, MoveStatus};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use tracing::{debug, info, warn};

use super::{EgressCounters, Metric, Occurrence, encode_counters};

/// From a label write to a grace period of ten minutes.
const DURATION_BUCKETS: [f64; 14] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

#[derive(Debug, Default)]
pub(super) struct MoveCounters {
    failovers: u64,
    moves: BTreeMap<MoveCause, u64>,
    deadlines: u64,
    failures: BTreeMap<String, u64>,
    stages: BTreeMap<&'static str, Histogram>,
}

impl MoveCounters {
    /// Keeps counters for these nodes only.
    pub(super) fn retain_nodes<'a>(&mut self, nodes: impl Iterator<Item = &'a String>) {
        let mut old = std::mem::take(&mut self.failures);
        let kept = nodes.map(|node| (node.clone(), old.remove(node).unwrap_or_default()));
        self.failures = kept.collect();
    }
}

const COUNTERS: &[Metric<MoveCounters, u64>] = &[
    Metric {
        name: "aplomb_egress_failovers",
        help: "Completed moves of the floating IP",
        read: |tally| vec![(Vec::new(), tally.failovers)],
    },
    Metric {
        name: "aplomb_egress_moves",
        help: "Started moves of the floating IP, by cause",
        read: |tally| {
            let moves = tally.moves.iter();
            moves
                .map(|(cause, count)| (vec![("cause", cause.as_str())], *count))
                .collect()
        },
    },
    Metric {
        name: "aplomb_egress_move_deadline_exceeded",
        help: "Moves that exceeded spec.moveDeadline",
        read: |tally| vec![(Vec::new(), tally.deadlines)],
    },
    Metric {
        name: "aplomb_egress_health_check_failures",
        help: "Failed probes, by node",
        read: |tally| {
            let failures = tally.failures.iter();
            failures
                .map(|(node, count)| (vec![("node", &**node)], *count))
                .collect()
        },
    },
];

pub(super) fn encode(
    tallies: &BTreeMap<String, MoveCounters>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    encode_counters(COUNTERS, "stable_egress", tallies, encoder)?;
    let name = "aplomb_egress_move_stage_seconds";
    let help = "Duration of each stage of a move";
    let mut shown = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (name, tally) in tallies {
        for (stage, histogram) in &tally.stages {
            let labels = [("stable_egress", &**name), ("stage", *stage)];
            histogram.encode(shown.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// A move was decided. Emitted once per move.
#[derive(Clone, Copy, Debug)]
pub struct MoveStarted<'a> {
    pub name: &'a str,
    pub moving: &'a MoveStatus,
}

impl Occurrence for MoveStarted<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let tally = ledger.tallies.entry(self.name.to_owned()).or_default();
        *tally.moves.entry(self.moving.cause).or_default() += 1;
        let from = self.moving.from.as_deref().unwrap_or("nowhere");
        let (to, cause) = (&self.moving.to, self.moving.cause.as_str());
        info!(stable_egress = %self.name, from, to, cause, "Moving floating IP");
    }
}

/// A move ended, and the new gateway has its labels. Emitted once per move.
#[derive(Clone, Copy, Debug)]
pub struct MoveEnded<'a> {
    pub name: &'a str,
    pub moved: &'a MoveStatus,
}

impl Occurrence for MoveEnded<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let tally = ledger.tallies.entry(self.name.to_owned()).or_default();
        tally.failovers += 1;
        for (stage, took) in stage_durations(&self.moved.stages) {
            let histogram = tally.stages.entry(stage);
            let histogram = histogram.or_insert_with(|| Histogram::new(DURATION_BUCKETS));
            histogram.observe(took.0.as_secs_f64());
        }
        let from = self.moved.from.as_deref().unwrap_or("nowhere");
        let (to, cause) = (&self.moved.to, self.moved.cause.as_str());
        let took = self.moved.stages.total.unwrap_or_default();
        info!(stable_egress = %self.name, from, to, cause, %took, "Moved floating IP");
    }
}

fn stage_durations(stages: &MoveStages) -> impl Iterator<Item = (&'static str, DurationString)> {
    let all = [
        ("decide", stages.decide),
        ("accept", stages.accept),
        ("assign", stages.assign),
        ("label", stages.label),
        ("unlabelled", stages.unlabelled),
        ("total", stages.total),
    ];
    all.into_iter().filter_map(|(stage, took)| Some((stage, took?)))
}

/// A move exceeds its deadline. Emitted once per move.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineBreached<'a> {
    pub name: &'a str,
    pub to: &'a str,
    pub deadline: DurationString,
}

impl Occurrence for DeadlineBreached<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let tally = ledger.tallies.entry(self.name.to_owned()).or_default();
        tally.deadlines += 1;
        let (to, deadline) = (self.to, self.deadline);
        warn!(stable_egress = %self.name, to, %deadline, "Move exceeds its deadline");
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ProbeFailed<'a> {
    pub name: &'a str,
    pub node: &'a str,
    /// Consecutive failures, this one included.
    pub failures: u32,
}

impl Occurrence for ProbeFailed<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let tally = ledger.tallies.entry(self.name.to_owned()).or_default();
        *tally.failures.entry(self.node.to_owned()).or_default() += 1;
        let Self { name, node, failures } = self;
        if failures == 1 {
            info!(stable_egress = %name, node, "Node probe failed");
        } else {
            debug!(stable_egress = %name, node, failures, "Node probe failed again");
        }
    }
}

//! State of a StableEgress: the gateway, the candidates, and problems.
//!
//! `gateway_available` equals the condition Available. It must never be 1 for any other reason.

use std::collections::BTreeMap;
use std::fmt;

use aplomb::conditions::ConditionStatus;
use aplomb_api::egress::{HealthSignal, conditions};
use prometheus_client::encoding::DescriptorEncoder;
use tracing::{info, warn};

use super::{EgressCounters, Metric, Occurrence, Sample, encode_gauges};
use crate::decide::Plan;
use crate::egress::{CandidateNode, LabelState, NodeReady, Observed};

/// A StableEgress as of its last decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EgressSnapshot {
    available: bool,
    reason: String,
    active: Option<(String, String)>,
    nodes: BTreeMap<String, NodePicture>,
    candidates: u32,
    ready_candidates: u32,
    provider_reachable: Option<bool>,
    labels_consistent: Option<bool>,
    held: bool,
    last_move: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct NodePicture {
    prepared: Option<bool>,
    healthy: Option<bool>,
}

const METRICS: &[Metric<EgressSnapshot, f64>] = &[
    Metric {
        name: "aplomb_egress_gateway_available",
        help: "Whether traffic can leave through the floating IP, as seen by the operator",
        read: |seen| single_sample(bool_value(seen.available)),
    },
    Metric {
        name: "aplomb_egress_gateway_state",
        help: "1 for the current reason of the condition Available",
        read: |seen| vec![(vec![("reason", seen.reason.as_str())], 1.0)],
    },
    Metric {
        name: "aplomb_egress_gateway_active",
        help: "1 for the gateway node, with the egress address",
        read: |seen| {
            let active = seen.active.iter();
            let labels = active.map(|(node, ip)| vec![("node", &**node), ("egress_ip", &**ip)]);
            labels.map(|labels| (labels, 1.0)).collect()
        },
    },
    Metric {
        name: "aplomb_egress_gateway_prepared",
        help: "Whether a candidate is prepared to be the gateway",
        read: |seen| node_samples(seen, |node| node.prepared),
    },
    Metric {
        name: "aplomb_egress_gateway_node_healthy",
        help: "Whether a candidate or gateway is healthy by the configured signal",
        read: |seen| node_samples(seen, |node| node.healthy),
    },
    Metric {
        name: "aplomb_egress_candidates",
        help: "Nodes that match spec.candidates",
        read: |seen| single_sample(seen.candidates.into()),
    },
    Metric {
        name: "aplomb_egress_ready_candidates",
        help: "Nodes that could hold the floating IP now, the gateway included",
        read: |seen| single_sample(seen.ready_candidates.into()),
    },
    Metric {
        name: "aplomb_egress_provider_reachable",
        help: "Whether the provider answered the last call for this object",
        read: |seen| optional_sample(seen.provider_reachable),
    },
    Metric {
        name: "aplomb_egress_labels_inconsistent",
        help: "1 while the gateway labels of Node and CiliumNode differ",
        read: |seen| optional_sample(seen.labels_consistent.map(|consistent| !consistent)),
    },
    Metric {
        name: "aplomb_egress_held",
        help: "1 while automation is frozen",
        read: |seen| single_sample(bool_value(seen.held)),
    },
    Metric {
        name: "aplomb_egress_last_move_timestamp_seconds",
        help: "When the last move ended",
        read: |seen| {
            let seconds = seen.last_move.iter();
            #[allow(clippy::cast_precision_loss, reason = "seconds are exact up to 2^53")]
            seconds.flat_map(|seconds| single_sample(*seconds as f64)).collect()
        },
    },
];

pub(super) fn encode(
    pictures: &BTreeMap<String, EgressSnapshot>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    encode_gauges(METRICS, "stable_egress", pictures, encoder)
}

fn bool_value(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

fn single_sample<'a>(value: f64) -> Vec<Sample<'a, f64>> {
    vec![(Vec::new(), value)]
}

fn optional_sample<'a>(value: Option<bool>) -> Vec<Sample<'a, f64>> {
    value.map(bool_value).map(single_sample).unwrap_or_default()
}

fn node_samples(seen: &EgressSnapshot, read: fn(&NodePicture) -> Option<bool>) -> Vec<Sample<'_, f64>> {
    let nodes = seen.nodes.iter();
    let known = nodes.filter_map(|(name, node)| Some((name, read(node)?)));
    known
        .map(|(name, yes)| (vec![("node", name.as_str())], bool_value(yes)))
        .collect()
}

#[derive(Clone, Copy, Debug)]
pub struct GatewayDecided<'a> {
    pub world: &'a Observed,
    pub plan: &'a Plan,
}

impl Occurrence for GatewayDecided<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let (name, seen) = (&self.world.name, new_snapshot(self.world, self.plan));
        let tally = ledger.tallies.entry(name.clone()).or_default();
        tally.retain_nodes(seen.nodes.keys());
        let old = ledger.gateways.insert(name.clone(), seen.clone());
        if old.is_some_and(|old| (old.available, old.reason) == (seen.available, seen.reason.clone())) {
            return;
        }
        let node = seen.active.as_ref().map_or("", |(node, _)| node);
        let (reason, ready) = (&seen.reason, seen.ready_candidates);
        let why = find_condition(self.plan, conditions::AVAILABLE).map_or("", |c| &c.message);
        if seen.available {
            info!(stable_egress = %name, reason, node, ready, why, "Egress gateway available");
        } else {
            warn!(stable_egress = %name, reason, node, ready, why, "Egress gateway not available");
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct GatewayRemoved<'a> {
    pub name: &'a str,
}

impl Occurrence for GatewayRemoved<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let known = ledger.gateways.remove(self.name).is_some();
        ledger.tallies.remove(self.name);
        if known {
            info!(stable_egress = %self.name, "StableEgress deleted");
        }
    }
}

fn find_condition<'a>(plan: &'a Plan, kind: &str) -> Option<&'a aplomb::Condition> {
    plan.conditions.iter().find(|c| c.type_ == kind)
}

/// `None` if unknown, which is not exported.
fn condition_value(plan: &Plan, kind: &str) -> Option<bool> {
    match find_condition(plan, kind)?.status {
        ConditionStatus::True => Some(true),
        ConditionStatus::False => Some(false),
        ConditionStatus::Unknown => None,
    }
}

fn new_snapshot(world: &Observed, plan: &Plan) -> EgressSnapshot {
    let status = &plan.status;
    let active = status.active_node.clone();
    let ip = status.ip.clone().unwrap_or_default();
    let available = find_condition(plan, conditions::AVAILABLE);
    let shown = |node: &&CandidateNode| node.candidate || node.labels != LabelState::None;
    EgressSnapshot {
        available: available.is_some_and(|c| c.status == ConditionStatus::True),
        reason: available.map_or("Unknown", |c| &c.reason).to_owned(),
        active: active.map(|node| (node, ip)),
        nodes: world
            .nodes
            .iter()
            .filter(shown)
            .map(|node| (node.name.clone(), node_snapshot(node, world.spec.health.signal)))
            .collect(),
        candidates: status.candidates.total,
        ready_candidates: status.candidates.ready,
        provider_reachable: condition_value(plan, conditions::PROVIDER_REACHABLE),
        labels_consistent: condition_value(plan, conditions::LABELS_CONSISTENT),
        held: condition_value(plan, conditions::HELD) == Some(true),
        last_move: status
            .last_move
            .as_ref()
            .and_then(|moved| moved.ended.as_ref())
            .map(|ended| ended.0.as_second()),
    }
}

/// A node that was not probed yet is neither healthy nor unhealthy.
fn node_snapshot(node: &CandidateNode, signal: HealthSignal) -> NodePicture {
    NodePicture {
        prepared: node.candidate.then_some(node.prepared),
        healthy: match signal {
            HealthSignal::Ready => Some(node.ready == NodeReady::True),
            HealthSignal::Probe => node.probe_result.map(|probed| probed.failures == 0),
        },
    }
}

//! Floating IPs: the node that has each, the candidates, and the last move.

use aplomb_api::DurationString;
use aplomb_api::egress::{self as api, StableEgressStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects::{ObjectMap, ObjectName, find_condition, parse_status, value_text};
use super::tunnel::StageRow;
use crate::health::HealthColor;

/// A floating IP that follows a healthy node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EgressRow {
    #[serde(flatten)]
    pub name: ObjectName,
    pub light: HealthColor,
    pub reason: String,
    pub message: String,
    pub ip: Option<String>,
    /// The node that has it.
    pub active_node: Option<String>,
    /// The active node, unhealthy nodes, and the nodes of the last move.
    pub nodes: Vec<NodeRow>,
    pub candidates: u32,
    /// How many candidates could take the address now.
    pub candidates_ready: u32,
    /// The last move, or the one in progress.
    pub last_move: Option<MoveRow>,
    /// The remaining rate limit, as the provider reported it.
    pub budget: Option<BudgetRow>,
}

/// A node that has, had or loses a floating IP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeRow {
    pub name: String,
    /// Whether it has the address.
    pub active: bool,
    /// Why it is suspect, if it is.
    pub suspicion: Option<String>,
    /// When that began.
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MoveRow {
    /// The node that had the address, if it was a node.
    pub from: Option<String>,
    /// The node that gets it.
    pub to: String,
    pub cause: String,
    /// Whether it is still in progress.
    pub under_way: bool,
    /// Whether it takes longer than its deadline.
    pub overdue: bool,
    /// When the cause was detected.
    pub detected: Timestamp,
    pub ended: Option<Timestamp>,
    /// The stages that are complete, on an axis that begins at `detected`.
    pub stages: Vec<StageRow>,
    /// How long no node had the labels, in seconds.
    pub unlabelled: Option<f64>,
}

/// The remaining part of a rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetRow {
    /// Calls per hour.
    pub limit: u32,
    /// Calls left when the level last changed.
    pub remaining: u32,
    /// `Plenty`, `Low` or `Reserve`.
    pub level: String,
}

pub(super) fn egress_rows(objects: &ObjectMap) -> Vec<EgressRow> {
    objects.of_kind("StableEgress").iter().map(egress_row).collect()
}

fn egress_row(object: &Value) -> EgressRow {
    let said: StableEgressStatus = parse_status(object);
    let ready = find_condition(object, "Ready").unwrap_or(&Value::Null);
    let last = said.moving.as_ref().or(said.last_move.as_ref());
    EgressRow {
        name: ObjectName::from_object(object),
        light: HealthColor::from_object(object),
        reason: value_text(&ready["reason"]),
        message: value_text(&ready["message"]),
        nodes: node_rows(&said, last),
        last_move: last.map(|it| move_row(it, said.moving.is_some())),
        budget: said.budget.as_ref().map(|it| BudgetRow {
            limit: it.limit,
            remaining: it.remaining,
            level: format!("{:?}", it.level),
        }),
        candidates: said.candidates.total,
        candidates_ready: said.candidates.ready,
        ip: said.ip,
        active_node: said.active_node,
    }
}

fn node_rows(said: &StableEgressStatus, last: Option<&api::MoveStatus>) -> Vec<NodeRow> {
    let active = said.active_node.as_deref();
    let moved = last.into_iter().flat_map(|it| [it.from.as_deref(), Some(&*it.to)]);
    let suspects = said.suspects.iter().map(|it| Some(&*it.node));
    let names = [active].into_iter().chain(suspects).chain(moved).flatten();
    let mut nodes: Vec<NodeRow> = Vec::new();
    for name in names {
        if nodes.iter().any(|it| it.name == name) {
            continue;
        }
        let suspect = said.suspects.iter().find(|it| it.node == name);
        nodes.push(NodeRow {
            name: name.to_owned(),
            active: active == Some(name),
            suspicion: suspect.map(|it| format!("{:?}", it.what)),
            since: suspect.map(|it| it.since.0),
        });
    }
    nodes
}

fn move_row(it: &api::MoveStatus, under_way: bool) -> MoveRow {
    let cause = serde_json::to_value(it.cause).unwrap_or_default();
    MoveRow {
        from: it.from.clone(),
        to: it.to.clone(),
        cause: value_text(&cause),
        under_way,
        overdue: it.overdue,
        detected: it.detected.0,
        ended: it.ended.as_ref().map(|it| it.0),
        stages: move_stages(it),
        unlabelled: it.stages.unlabelled.as_ref().map(span_seconds),
    }
}

fn move_stages(it: &api::MoveStatus) -> Vec<StageRow> {
    let spans = [
        ("decided", &it.stages.decide),
        ("accepted", &it.stages.accept),
        ("assigned", &it.stages.assign),
        ("labelled", &it.stages.label),
    ];
    let mut offset = 0.0;
    let told = spans
        .into_iter()
        .filter_map(|(name, span)| Some((name, span_seconds(span.as_ref()?))));
    told.map(|(name, took)| {
        offset += took;
        StageRow {
            name: name.to_owned(),
            at: it.detected.0 + std::time::Duration::from_secs_f64(offset),
            offset,
            took,
        }
    })
    .collect()
}

fn span_seconds(span: &DurationString) -> f64 {
    span.0.as_secs_f64()
}

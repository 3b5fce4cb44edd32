//! What the operator has observed and done. Times are those of events, not of the last check, so an unchanged
//! state gives an unchanged status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constants::MoveCause;
use crate::duration::DurationString;

/// The observed state of a StableEgress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StableEgressStatus {
    /// The node that is the gateway: it has the floating IP and the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_node: Option<String>,
    /// Whether the gateway has been a candidate while serving. A gateway that never was is left in place.
    pub active_was_candidate: bool,
    /// The floating IP's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// The floating IP's id at the provider.
    #[serde(rename = "floatingIPID", skip_serializing_if = "Option::is_none")]
    pub floating_ip_id: Option<i64>,
    /// The server that the floating IP was last seen on.
    #[serde(rename = "serverID", skip_serializing_if = "Option::is_none")]
    pub server_id: Option<i64>,
    /// The last move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_move: Option<MoveStatus>,
    /// The move in progress.
    #[serde(rename = "move", skip_serializing_if = "Option::is_none")]
    pub moving: Option<MoveStatus>,
    /// Times of the moves in the last hour, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recent_moves: Vec<Time>,
    /// Failing gateways whose grace period is running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<SuspectStatus>,
    /// When the floating IP was first seen on a server that is not a candidate, after it had been on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere_since: Option<MicroTime>,
    /// The nodes that could serve.
    pub candidates: CandidateStatus,
    /// The remaining rate limit of the provider, as of its last change of level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
    /// The next check: `every 30s`, or the time at which a period ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_check: Option<String>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A move of the floating IP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoveStatus {
    /// The node it moved from, if it was on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node it moved to.
    pub to: String,
    /// The cause.
    pub cause: MoveCause,
    /// When the cause was first detected, before any grace period.
    pub detected: MicroTime,
    /// When it was decided, after any grace period.
    pub decided: MicroTime,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<MicroTime>,
    /// Since when no node has the labels, for a move in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlabelled_since: Option<MicroTime>,
    /// Whether it took longer than `spec.moveDeadline`, counted from the decision.
    #[serde(default)]
    pub overdue: bool,
    /// The duration of each stage.
    #[serde(default)]
    pub stages: MoveStages,
}

/// The duration of each stage of a move.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MoveStages {
    /// From detection to the decision: the grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<DurationString>,
    /// From the decision to the provider's acceptance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<DurationString>,
    /// From acceptance until the floating IP was seen on the new server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assign: Option<DurationString>,
    /// From assignment until the new node had the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<DurationString>,
    /// How long no node had the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlabelled: Option<DurationString>,
    /// From detection to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<DurationString>,
}

/// A failing gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspectStatus {
    /// Its name.
    pub node: String,
    /// The problem.
    pub what: Suspicion,
    /// When it was first detected.
    pub since: MicroTime,
}

/// The problem of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Suspicion {
    /// Its health check fails.
    Unhealthy,
    /// No pod that prepares the node is Ready on it.
    Unprepared,
}

/// The nodes that could serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CandidateStatus {
    /// The number of candidate nodes.
    #[schemars(extend("format" = "int32"))]
    pub total: u32,
    /// The number of candidates that could take the floating IP now, including the gateway.
    #[schemars(extend("format" = "int32"))]
    pub ready: u32,
}

/// The remaining rate limit of the provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetStatus {
    /// Calls allowed per hour.
    #[schemars(extend("format" = "int32"))]
    pub limit: u32,
    /// Calls remaining when the level last changed.
    #[schemars(extend("format" = "int32"))]
    pub remaining: u32,
    /// The level.
    pub level: BudgetLevel,
}

/// The level of a remaining rate limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum BudgetLevel {
    /// Enough for all uses.
    #[default]
    Plenty,
    /// Less than a quarter: routine reads become rarer.
    Low,
    /// At most what one move may cost (30 calls, or half of a limit below 60). Only one read in 15 minutes,
    /// to notice when the limit recovers, and the first read of a process.
    Reserve,
}

//! What the operator has seen and done. Nothing in it changes while nothing changes: times are the
//! moments of events, never of the last look.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constants::MoveCause;
use crate::duration::DurationString;

/// What is known of a StableEgress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StableEgressStatus {
    /// The node that is the gateway: it holds the floating IP and the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_node: Option<String>,
    /// Whether the gateway was a candidate while it was the gateway; one that never was is left alone.
    pub active_was_candidate: bool,
    /// The floating IP's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// The floating IP's id at the provider.
    #[serde(rename = "floatingIPID", skip_serializing_if = "Option::is_none")]
    pub floating_ip_id: Option<i64>,
    /// The server that held it when it was last seen.
    #[serde(rename = "serverID", skip_serializing_if = "Option::is_none")]
    pub server_id: Option<i64>,
    /// The last move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_move: Option<MoveStatus>,
    /// The move that is under way.
    #[serde(rename = "move", skip_serializing_if = "Option::is_none")]
    pub moving: Option<MoveStatus>,
    /// When it was moved within the last hour, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recent_moves: Vec<Time>,
    /// Gateways in trouble, whose grace is running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<SuspectStatus>,
    /// When the floating IP was first seen on a server that is not ours, after it had been on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere_since: Option<MicroTime>,
    /// Who could serve.
    pub candidates: CandidateStatus,
    /// What the provider said is left of its rate limit, when that last changed its level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
    /// When it is looked at next: `every 30s`, or the moment at which something ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_check: Option<String>,
    /// The generation of the spec this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
}

/// A move of the floating IP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoveStatus {
    /// From which node, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// To which.
    pub to: String,
    /// Why.
    pub cause: MoveCause,
    /// When the need was first seen, before any grace.
    pub detected: MicroTime,
    /// When it was decided, after any grace.
    pub decided: MicroTime,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<MicroTime>,
    /// Since when no node carries the labels, while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlabelled_since: Option<MicroTime>,
    /// Whether it took longer than `spec.moveDeadline`, counted from the decision.
    #[serde(default)]
    pub overdue: bool,
    /// How long each stage took, counted from the one before.
    #[serde(default)]
    pub stages: MoveStages,
}

/// How long each stage of a move took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MoveStages {
    /// From the first sign to the decision: the grace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<DurationString>,
    /// From the decision to the provider's acceptance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<DurationString>,
    /// From there to the moment the floating IP was seen on the new server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assign: Option<DurationString>,
    /// From there to the labels on the new node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<DurationString>,
    /// How long no node had the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlabelled: Option<DurationString>,
    /// From the first sign to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<DurationString>,
}

/// A gateway in trouble.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspectStatus {
    /// Its name.
    pub node: String,
    /// What is wrong with it.
    pub what: Suspicion,
    /// Since when.
    pub since: MicroTime,
}

/// What is wrong with a gateway.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Suspicion {
    /// Its health signal fails.
    Unhealthy,
    /// No pod that prepares it is Ready on it.
    Unprepared,
}

/// Who could serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CandidateStatus {
    /// How many nodes are candidates.
    #[schemars(extend("format" = "int32"))]
    pub total: u32,
    /// How many of them could take the floating IP now, the gateway included.
    #[schemars(extend("format" = "int32"))]
    pub ready: u32,
}

/// What the provider said is left of its rate limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetStatus {
    /// How many calls an hour.
    #[schemars(extend("format" = "int32"))]
    pub limit: u32,
    /// How many were left when the level last changed.
    #[schemars(extend("format" = "int32"))]
    pub remaining: u32,
    /// How that is.
    pub level: BudgetLevel,
}

/// How much of a rate limit is left.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum BudgetLevel {
    /// Enough for everybody.
    #[default]
    Plenty,
    /// Less than a quarter: looks become rarer.
    Low,
    /// Not more than what a move may cost (30 calls, or half of a limit below 60): one look in 15
    /// minutes, which tells whether there is more again, and the first look of a process.
    Reserve,
}

//! `StableEgress`: a floating IP that follows a healthy node.

mod constants;
mod schema;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::DurationString;

pub use constants::{MoveCause, annotations, conditions, labels, reasons};
pub use status::{
    BudgetLevel, BudgetStatus, CandidateStatus, MoveStages, MoveStatus, StableEgressStatus, SuspectStatus, Suspicion,
};

/// The syntax of object names.
const DNS_SUBDOMAIN_PATTERN: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";

/// A floating IP that follows a healthy node.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "StableEgress",
    plural = "stableegresses",
    shortname = "seg",
    category = "aplomb",
    status = "StableEgressStatus",
    derive = "PartialEq",
    doc = "A floating IP that follows a healthy node.",
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ip"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.activeNode"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Last-Move", type_ = "date", json_path = ".status.lastMove.ended"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Candidates", type_ = "integer", json_path = ".status.candidates.ready", priority = 1),
    printcolumn(name = "Budget", type_ = "string", json_path = ".status.budget.level", priority = 1),
    printcolumn(name = "Cause", type_ = "string", json_path = ".status.lastMove.cause", priority = 1),
    validation = Rule::new(
        "self.metadata.name.size() <= 63 || (has(self.spec.candidates) && \
         has(self.spec.gatewayLabels) && self.spec.gatewayLabels.size() > 0)"
    ).message(
        "metadata.name is the value of the default labels and must be at most 63 characters: \
         shorten it, or give both spec.candidates and spec.gatewayLabels"
    )
)]
#[x_kube(
    validation = Rule::new(
        "!has(self.candidates) || !has(self.candidates.matchLabels) || !has(self.gatewayLabels) \
         || !self.gatewayLabels.exists(key, key in self.candidates.matchLabels)"
    ).message(
        "gatewayLabels and candidates.matchLabels share a key, so a node that stops being the \
         gateway would also stop being a candidate: use another key"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct StableEgressSpec {
    /// The floating IP, by name or by id.
    #[serde(rename = "floatingIP")]
    pub floating_ip: FloatingIpRef,
    /// The Secret with the API token, in the operator's namespace. If unset, the operator's own token file is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<TokenSecretRef>,
    /// Which nodes may hold the floating IP. Default: those with the label
    /// `egress.aplomb.dev/candidate` and this object's name as its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector")]
    pub candidates: Option<LabelSelector>,
    /// The labels of the gateway node; no other node has them. Default: `egress.aplomb.dev/gateway`
    /// with this object's name as its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub gateway_labels: BTreeMap<String, String>,
    /// How the health of a gateway is checked.
    #[serde(default)]
    pub health: HealthSpec,
    /// How long a failing gateway is kept before it is replaced.
    #[serde(default)]
    pub graces: GraceSpec,
    /// The networks that the floating IP must be in, as CIDRs. If empty, every address is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::networks")]
    pub allowlist: Vec<String>,
    /// How often the provider is read when nothing changed. Less often when its rate limit runs low.
    #[serde(default = "default_resync")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('5s')").message(
        "the provider's rate limit is shared: write 5s or more"
    ))]
    pub resync: DurationString,
    /// Freezes automation; the annotation `egress.aplomb.dev/hold` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldSpec>,
    /// The preferred node, used while it can serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<PinSpec>,
    /// Minimum time on a node before the floating IP is moved without need.
    #[serde(default = "default_dwell")]
    pub dwell: DurationString,
    /// Maximum number of moves per hour away from a node that is failing but not dead.
    #[serde(default = "default_max_moves_per_hour")]
    #[schemars(range(min = 1, max = 3600), extend("format" = "int32"))]
    pub max_moves_per_hour: u32,
    /// How long the floating IP is left on a server outside the candidates after another party moved it there.
    #[serde(default = "default_respect_foreign_moves")]
    pub respect_foreign_moves: DurationString,
    /// How long a move may take. A longer move is reported as an Event and in a metric.
    #[serde(default = "default_deadline")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1s')").message(
        "a move takes at least 1s: write 1s or more"
    ))]
    pub move_deadline: DurationString,
    /// A node counts as prepared when one of these pods is Ready on it. If unset, every node is prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedSpec>,
}

/// A floating IP, by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("has(self.name) != has(self.id)").message(
        "identify the floating IP by exactly one of name and id"
    )
)]
pub struct FloatingIpRef {
    /// Its name in the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub id: Option<i64>,
}

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenSecretRef {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN_PATTERN))]
    pub name: String,
    /// The key in it.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// Freezes automation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HoldSpec {
    /// When the hold ends. If unset, it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The reason, for other users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
}

/// The preferred node, used while it can serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinSpec {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN_PATTERN))]
    pub node: String,
    /// When the preference ends. If unset, it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// The pods that prepare a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreparedSpec {
    /// Their namespace. Default: the operator's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,
    /// Their labels.
    #[schemars(schema_with = "schema::selector")]
    pub selector: LabelSelector,
}

fn default_resync() -> DurationString {
    DurationString::from_secs(30)
}

fn default_dwell() -> DurationString {
    DurationString::from_secs(60)
}

fn default_max_moves_per_hour() -> u32 {
    6
}

fn default_respect_foreign_moves() -> DurationString {
    DurationString::from_secs(300)
}

fn default_deadline() -> DurationString {
    DurationString::from_secs(60)
}

fn default_key() -> String {
    "token".to_owned()
}

/// How the health of a gateway is checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthSpec {
    /// The signal that decides.
    #[serde(default)]
    pub signal: HealthSignal,
    /// The TCP probe, for the signal `Probe`.
    #[serde(default)]
    pub probe: ProbeSpec,
}

/// The signal that decides about health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthSignal {
    /// The node's Ready condition.
    #[default]
    Ready,
    /// Whether a TCP port of the node can be reached.
    Probe,
}

/// A TCP probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("duration(self.timeout) < duration(self.interval)").message(
        "timeout must be shorter than interval: lower timeout or raise interval"
    )
)]
pub struct ProbeSpec {
    /// The port. Default: the metrics port of Cilium's agent.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535), extend("format" = "int32"))]
    pub port: u16,
    /// How often to probe.
    #[serde(default = "default_interval")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1s')").message(
        "probe at most once a second: write 1s or more"
    ))]
    pub interval: DurationString,
    /// How long a probe may take.
    #[serde(default = "default_timeout")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('50ms')").message(
        "a probe needs at least 50ms: write 50ms or more"
    ))]
    pub timeout: DurationString,
    /// Consecutive failures before the gateway counts as unhealthy. If only this is set, they replace the
    /// grace; if `graces.unhealthy` is set too, both must have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("format" = "int32"))]
    pub failures: Option<u32>,
}

impl Default for ProbeSpec {
    fn default() -> Self {
        Self {
            port: default_port(),
            interval: default_interval(),
            timeout: default_timeout(),
            failures: None,
        }
    }
}

/// How long a failing gateway is kept before it is replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraceSpec {
    /// How long it may be unhealthy. Default: 90s, or none if `health.probe.failures` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<DurationString>,
    /// How long it may be unprepared.
    #[serde(default = "default_unprepared")]
    pub unprepared: DurationString,
    /// Whether a new leader continues a running grace period instead of restarting it.
    #[serde(default = "default_survive_restart")]
    pub survive_restart: bool,
}

impl Default for GraceSpec {
    fn default() -> Self {
        Self {
            unhealthy: None,
            unprepared: default_unprepared(),
            survive_restart: default_survive_restart(),
        }
    }
}

fn default_port() -> u16 {
    9962
}

fn default_interval() -> DurationString {
    DurationString::from_secs(10)
}

fn default_timeout() -> DurationString {
    DurationString::from_secs(2)
}

fn default_unprepared() -> DurationString {
    DurationString::from_secs(300)
}

fn default_survive_restart() -> bool {
    true
}

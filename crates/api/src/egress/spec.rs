//! What a person asks for.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::StableEgressStatus;
use crate::duration::Span;

/// A floating IP that follows a healthy node.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "StableEgress",
    plural = "stableegresses",
    shortname = "seg",
    category = "aplomb",
    status = "StableEgressStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct StableEgressSpec {
    /// The floating IP, by name or by id.
    #[serde(rename = "floatingIP")]
    pub floating_ip: FloatingIpRef,
    /// The Secret with the API token, in the operator's namespace. Without it the operator's own
    /// token file is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<TokenSecretRef>,
    /// Which nodes may hold the floating IP. Default: those with the label
    /// `egress.aplomb.dev/candidate` and this object's name as its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<LabelSelector>,
    /// The labels that the gateway carries, and no other node. Default: `egress.aplomb.dev/gateway`
    /// with this object's name as its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gateway_labels: BTreeMap<String, String>,
    /// How a gateway is found to be healthy.
    #[serde(default)]
    pub health: Health,
    /// How long a gateway may be in trouble before it is replaced.
    #[serde(default)]
    pub graces: Graces,
    /// The networks that the floating IP must be in, as CIDRs. Without any, every address is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowlist: Vec<String>,
    /// How often the provider is asked although nothing changed. More rarely when its budget is low.
    #[serde(default = "resync")]
    pub resync: Span,
    /// Freezes automation; the annotation `egress.aplomb.dev/hold` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The node to prefer while it can serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// How long the floating IP stays on a node at least before it is moved without need.
    #[serde(default = "dwell")]
    pub dwell: Span,
    /// How often an hour it may be moved away from a node that is in trouble but not dead.
    #[serde(default = "moves")]
    pub max_moves_per_hour: u32,
    /// How long a move that somebody else made to a server outside the candidates is left alone.
    #[serde(default = "respect")]
    pub respect_foreign_moves: Span,
    /// How long a move may take before it is an Event and a metric.
    #[serde(default = "deadline")]
    pub move_deadline: Span,
    /// A node counts as prepared when a pod of these is Ready on it. Without it every node does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Prepared>,
}

/// A floating IP, by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FloatingIpRef {
    /// Its name in the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
}

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenSecretRef {
    /// The Secret's name.
    pub name: String,
    /// The key in it.
    #[serde(default = "key")]
    pub key: String,
}

/// How a gateway is found to be healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// What counts.
    #[serde(default)]
    pub signal: Signal,
    /// How it is probed, where that counts.
    #[serde(default)]
    pub probe: Probe,
}

/// What counts for health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// The node's Ready condition.
    #[default]
    Ready,
    /// Whether a TCP port of the node can be reached.
    Probe,
}

/// A TCP probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The port; by default the metrics port of Cilium's agent.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// How often.
    #[serde(default = "interval")]
    pub interval: Span,
    /// How long one may take.
    #[serde(default = "timeout")]
    pub timeout: Span,
    /// How many in a row must fail. When this is set and `graces.unhealthy` is not, they are the
    /// whole grace; when both are set, both must be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            port: port(),
            interval: interval(),
            timeout: timeout(),
            failures: None,
        }
    }
}

/// How long a gateway may be in trouble before it is replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Graces {
    /// How long it may be unhealthy. Default: 90s, or none where `health.probe.failures` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<Span>,
    /// How long it may be unprepared.
    #[serde(default = "unprepared")]
    pub unprepared: Span,
    /// Whether a new leader goes on with a grace where the old one was, instead of starting it anew.
    #[serde(default = "yes")]
    pub survive_restart: bool,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            unhealthy: None,
            unprepared: unprepared(),
            survive_restart: yes(),
        }
    }
}

/// Freezes automation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hold {
    /// Until when; for ever if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Why, for others to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The node to prefer while it can serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pin {
    /// Its name.
    pub node: String,
    /// Until when; for ever if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Which pods prepare a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prepared {
    /// Their namespace; by default the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Their labels.
    pub selector: LabelSelector,
}

fn resync() -> Span {
    Span::seconds(30)
}

fn dwell() -> Span {
    Span::seconds(60)
}

fn moves() -> u32 {
    6
}

fn respect() -> Span {
    Span::seconds(300)
}

fn deadline() -> Span {
    Span::seconds(60)
}

fn key() -> String {
    "token".to_owned()
}

fn port() -> u16 {
    9962
}

fn interval() -> Span {
    Span::seconds(10)
}

fn timeout() -> Span {
    Span::seconds(2)
}

fn unprepared() -> Span {
    Span::seconds(300)
}

fn yes() -> bool {
    true
}

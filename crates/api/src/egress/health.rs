//! Spec fields for the health of a gateway node.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::DurationString;

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

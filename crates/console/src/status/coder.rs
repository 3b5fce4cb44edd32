//! Provisioners and workspace proxies of Coder: which key, how old, who uses it.
//!
//! A key here is its name and its age. What it opens is in a Secret that nothing here reads.

use aplomb_api::coder::{
    CoderProvisionerStatus, CoderWorkspaceProxyStatus, RateLimited, RotationStatus,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects::{ObjectMap, ObjectName, find_condition, parse_status, value_text};
use crate::health::HealthColor;

/// Provisioner daemons and their key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisionerRow {
    /// Which.
    #[serde(flatten)]
    pub name: ObjectName,
    /// Whether it is proven.
    pub light: HealthColor,
    /// The reason of its `Ready`.
    pub reason: String,
    /// What that says to people.
    pub message: String,
    /// The server.
    pub server: Option<String>,
    /// The key in use.
    pub key: Option<KeyRow>,
    /// The name of the key that is about to be made.
    pub pending: Option<String>,
    /// Keys that go once nobody uses them.
    pub retiring: Vec<KeyRow>,
    /// Daemons that the server sees, of those that are wanted: `2/3`.
    pub daemons: Option<String>,
    /// How often its key was replaced.
    pub rotations: u32,
    /// When it last was.
    pub rotated: Option<Timestamp>,
    /// Why it last was.
    pub rotated_because: Option<String>,
    /// The server refuses for its rate limit.
    pub rate_limited: Option<ThrottleRow>,
}

/// A key, by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyRow {
    /// Its name at the server.
    pub name: String,
    /// Since when it is in use, or going.
    pub since: Timestamp,
}

/// A server refuses for its rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThrottleRow {
    /// Since when.
    pub since: Timestamp,
    /// Which call it refused.
    pub endpoint: String,
    /// Nothing is sent before this.
    pub not_before: Timestamp,
}

/// A workspace proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyRow {
    /// Which.
    #[serde(flatten)]
    pub name: ObjectName,
    /// Whether it is proven.
    pub light: HealthColor,
    /// The reason of its `Ready`.
    pub reason: String,
    /// What that says to people.
    pub message: String,
    /// The server.
    pub server: Option<String>,
    /// Its name at the server.
    pub proxy_name: Option<String>,
    /// Whether the server knows it.
    pub registered: bool,
    /// How many pods are ready.
    pub ready_replicas: i32,
    /// How often its token was replaced.
    pub rotations: u32,
    /// When it last was.
    pub rotated: Option<Timestamp>,
    /// The server refuses for its rate limit.
    pub rate_limited: Option<ThrottleRow>,
}

pub(super) fn provisioner_rows(objects: &ObjectMap) -> Vec<ProvisionerRow> {
    objects
        .of_kind("CoderProvisioner")
        .iter()
        .map(provisioner_row)
        .collect()
}

fn provisioner_row(object: &Value) -> ProvisionerRow {
    let said: CoderProvisionerStatus = parse_status(object);
    let ready = find_condition(object, "Ready").unwrap_or(&Value::Null);
    let RotationStatus {
        sequence,
        reason,
        last,
        ..
    } = said.rotation;
    let key = said.key.map(|it| KeyRow {
        name: it.name,
        since: it.since.0,
    });
    let retiring = said.retiring.into_iter().map(|it| KeyRow {
        name: it.key.name,
        since: it.retired.0,
    });
    ProvisionerRow {
        name: ObjectName::from_object(object),
        light: HealthColor::from_object(object),
        reason: value_text(&ready["reason"]),
        message: value_text(&ready["message"]),
        server: said.control_plane_url,
        key,
        pending: said.pending.map(|it| it.name),
        retiring: retiring.collect(),
        daemons: said.daemons,
        rotations: sequence,
        rotated: last.map(|it| it.0),
        rotated_because: reason,
        rate_limited: said.rate_limited.map(throttle_row),
    }
}

pub(super) fn proxy_rows(objects: &ObjectMap) -> Vec<ProxyRow> {
    objects
        .of_kind("CoderWorkspaceProxy")
        .iter()
        .map(proxy_row)
        .collect()
}

fn proxy_row(object: &Value) -> ProxyRow {
    let said: CoderWorkspaceProxyStatus = parse_status(object);
    let ready = find_condition(object, "Ready").unwrap_or(&Value::Null);
    ProxyRow {
        name: ObjectName::from_object(object),
        light: HealthColor::from_object(object),
        reason: value_text(&ready["reason"]),
        message: value_text(&ready["message"]),
        server: said.binding.map(|it| it.server_url),
        proxy_name: said.proxy_name,
        registered: said.registered,
        ready_replicas: said.ready_replicas,
        rotations: said.rotation.sequence,
        rotated: said.rotation.last.map(|it| it.0),
        rate_limited: said.rate_limited.map(throttle_row),
    }
}

fn throttle_row(said: RateLimited) -> ThrottleRow {
    ThrottleRow {
        since: said.since.0,
        endpoint: said.endpoint,
        not_before: said.not_before.0,
    }
}

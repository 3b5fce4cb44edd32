//! Provisioners and workspace proxies of Coder: which key is in use, its age, and its users.
//!
//! A key here is a name and an age. Its value is in a Secret that is not read here.

use aplomb_api::coder::{CoderProvisionerStatus, CoderWorkspaceProxyStatus, RateLimited, RotationStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects::{ObjectMap, ObjectName, find_condition, parse_status, value_text};
use crate::health::HealthColor;

/// Provisioner daemons and their key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisionerRow {
    #[serde(flatten)]
    pub name: ObjectName,
    pub light: HealthColor,
    pub reason: String,
    pub message: String,
    pub server: Option<String>,
    pub key: Option<KeyRow>,
    /// The name of the key that is being created.
    pub pending: Option<String>,
    /// Old keys that are deleted once no daemon uses them.
    pub retiring: Vec<KeyRow>,
    /// Connected daemons of the desired number: `2/3`.
    pub daemons: Option<String>,
    pub rotations: u32,
    pub rotated: Option<Timestamp>,
    /// Why it was last rotated.
    pub rotated_because: Option<String>,
    /// Set while the server rejects calls with its rate limit.
    pub rate_limited: Option<ThrottleRow>,
}

/// A key, without its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyRow {
    /// Its name at the server.
    pub name: String,
    /// When it was put into use, or when its retirement began.
    pub since: Timestamp,
}

/// A server that rejects calls with its rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThrottleRow {
    pub since: Timestamp,
    /// The call that was rejected.
    pub endpoint: String,
    /// No call is sent before this time.
    pub not_before: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyRow {
    #[serde(flatten)]
    pub name: ObjectName,
    pub light: HealthColor,
    pub reason: String,
    pub message: String,
    pub server: Option<String>,
    /// Its name at the server.
    pub proxy_name: Option<String>,
    pub registered: bool,
    pub ready_replicas: i32,
    pub rotations: u32,
    pub rotated: Option<Timestamp>,
    /// Set while the server rejects calls with its rate limit.
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
        sequence, reason, last, ..
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
    objects.of_kind("CoderWorkspaceProxy").iter().map(proxy_row).collect()
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

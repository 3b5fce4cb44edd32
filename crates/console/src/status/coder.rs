//! Provisioners and workspace proxies of Coder: which key, how old, who uses it.
//!
//! A key here is its name and its age. What it opens is in a Secret that nothing here reads.

use aplomb_api::coder::{CoderProvisionerStatus, CoderWorkspaceProxyStatus, RateLimited, Rotation};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects::{Name, Objects, condition, status, text};
use crate::light::Light;

/// Provisioner daemons and their key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Provisioner {
    /// Which.
    #[serde(flatten)]
    pub name: Name,
    /// Whether it is proven.
    pub light: Light,
    /// The reason of its `Ready`.
    pub reason: String,
    /// What that says to people.
    pub message: String,
    /// The server.
    pub server: Option<String>,
    /// The key in use.
    pub key: Option<Key>,
    /// The name of the key that is about to be made.
    pub pending: Option<String>,
    /// Keys that go once nobody uses them.
    pub retiring: Vec<Key>,
    /// Daemons that the server sees, of those that are wanted: `2/3`.
    pub daemons: Option<String>,
    /// How often its key was replaced.
    pub rotations: u32,
    /// When it last was.
    pub rotated: Option<Timestamp>,
    /// Why it last was.
    pub rotated_because: Option<String>,
    /// The server refuses for its rate limit.
    pub rate_limited: Option<Throttle>,
}

/// A key, by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Key {
    /// Its name at the server.
    pub name: String,
    /// Since when it is in use, or going.
    pub since: Timestamp,
}

/// A server refuses for its rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Throttle {
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
pub struct Proxy {
    /// Which.
    #[serde(flatten)]
    pub name: Name,
    /// Whether it is proven.
    pub light: Light,
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
    pub rate_limited: Option<Throttle>,
}

pub(super) fn provisioners(objects: &Objects) -> Vec<Provisioner> {
    objects
        .of("CoderProvisioner")
        .iter()
        .map(provisioner)
        .collect()
}

fn provisioner(object: &Value) -> Provisioner {
    let said: CoderProvisionerStatus = status(object);
    let ready = condition(object, "Ready").unwrap_or(&Value::Null);
    let Rotation {
        sequence,
        reason,
        last,
        ..
    } = said.rotation;
    let key = said.key.map(|it| Key {
        name: it.name,
        since: it.since.0,
    });
    let retiring = said.retiring.into_iter().map(|it| Key {
        name: it.key.name,
        since: it.retired.0,
    });
    Provisioner {
        name: Name::of(object),
        light: Light::of(object),
        reason: text(&ready["reason"]),
        message: text(&ready["message"]),
        server: said.control_plane_url,
        key,
        pending: said.pending.map(|it| it.name),
        retiring: retiring.collect(),
        daemons: said.daemons,
        rotations: sequence,
        rotated: last.map(|it| it.0),
        rotated_because: reason,
        rate_limited: said.rate_limited.map(throttle),
    }
}

pub(super) fn proxies(objects: &Objects) -> Vec<Proxy> {
    objects
        .of("CoderWorkspaceProxy")
        .iter()
        .map(proxy)
        .collect()
}

fn proxy(object: &Value) -> Proxy {
    let said: CoderWorkspaceProxyStatus = status(object);
    let ready = condition(object, "Ready").unwrap_or(&Value::Null);
    Proxy {
        name: Name::of(object),
        light: Light::of(object),
        reason: text(&ready["reason"]),
        message: text(&ready["message"]),
        server: said.binding.map(|it| it.server_url),
        proxy_name: said.proxy_name,
        registered: said.registered,
        ready_replicas: said.ready_replicas,
        rotations: said.rotation.sequence,
        rotated: said.rotation.last.map(|it| it.0),
        rate_limited: said.rate_limited.map(throttle),
    }
}

fn throttle(said: RateLimited) -> Throttle {
    Throttle {
        since: said.since.0,
        endpoint: said.endpoint,
        not_before: said.not_before.0,
    }
}

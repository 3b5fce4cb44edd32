//! Servers, floating IPs and actions as the simulator keeps them.
//!
//! The same shapes are the control plane's `state`; what clients of the API see is in `view`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Labels of a resource.
pub type Labels = BTreeMap<String, String>;

/// A server. Members that are not listed here are shown to clients as they were given.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Server {
    /// 0 or absent: keeps the id of the server with that name, or gets a new one.
    #[serde(default)]
    pub id: u64,
    /// Unique in its project.
    pub name: String,
    /// `running`, `off`, ...
    #[serde(default = "running")]
    pub status: String,
    /// Locked by hand. Running actions lock as well, and do not show here.
    #[serde(default)]
    pub locked: bool,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
    /// When it was made; absent is now.
    #[serde(default)]
    pub created: Option<Timestamp>,
    /// Which project it is in; absent is every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Anything else the API has, shown as it is.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A floating IP.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FloatingIp {
    /// 0 or absent: keeps the id of the address with that name, or gets a new one.
    #[serde(default)]
    pub id: u64,
    /// Unique in its project.
    pub name: String,
    /// Free text.
    #[serde(default)]
    pub description: Option<String>,
    /// The address; a /64 for IPv6.
    pub ip: String,
    /// `ipv4` or `ipv6`; absent is told by the address.
    #[serde(rename = "type", default)]
    pub family: Option<String>,
    /// The server that holds it.
    #[serde(default)]
    pub server: Option<u64>,
    /// Reverse names.
    #[serde(default)]
    pub dns_ptr: Vec<Value>,
    /// Where it is routed best; absent is Falkenstein.
    #[serde(default)]
    pub home_location: Option<Value>,
    /// Whether the provider has blocked it.
    #[serde(default)]
    pub blocked: bool,
    /// Guards.
    #[serde(default)]
    pub protection: Protection,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
    /// When it was made; absent is now.
    #[serde(default)]
    pub created: Option<Timestamp>,
    /// Which project it is in; absent is every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// What may not be done to a resource.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Protection {
    /// It may not be deleted.
    #[serde(default)]
    pub delete: bool,
}

/// How far an action is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not over.
    Running,
    /// Over, done.
    Success,
    /// Over, not done.
    Error,
}

/// Something that takes time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ActionRecord {
    /// 0 or absent gets a new one.
    #[serde(default)]
    pub id: u64,
    /// `assign_floating_ip`, ...
    pub command: String,
    /// How far it is.
    pub status: Status,
    /// When it began; absent is now.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// When it was over.
    #[serde(default)]
    pub finished: Option<Timestamp>,
    /// What it is about.
    #[serde(default)]
    pub resources: Vec<Resource>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<ActionError>,
    /// When it will be over; a running one without never is.
    #[serde(default)]
    pub ends: Option<Timestamp>,
    /// How it will end if not in success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<ActionError>,
    /// Whether its resources are locked while it runs.
    #[serde(default = "yes")]
    pub locks: bool,
    /// What its end changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Which project it is in; absent is every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// What an action is about.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Resource {
    /// Which one.
    pub id: u64,
    /// `server`, `floating_ip` or `volume`.
    #[serde(rename = "type")]
    pub kind: String,
}

impl Resource {
    /// A reference.
    #[must_use]
    pub fn new(kind: &str, id: u64) -> Self {
        let kind = kind.to_owned();
        Self { id, kind }
    }
}

/// Why an action failed.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ActionError {
    /// `action_failed`, ...
    pub code: String,
    /// For people.
    pub message: String,
}

/// What the end of an action changes.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A floating IP has another holder, or none.
    Hold {
        /// Which address.
        floating_ip: u64,
        /// Its holder from then on.
        server: Option<u64>,
    },
    /// A server is gone.
    DeleteServer(u64),
}

fn running() -> String {
    "running".to_owned()
}

fn yes() -> bool {
    true
}

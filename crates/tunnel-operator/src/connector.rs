//! The Connector: whether its class exists, which gateways may connect to it, and whether it is online.
//!
//! `observe` builds an [`Observed`], `decide` turns it into a [`Plan`], and the controller executes the one step that
//! a plan can contain. Nothing here dials an agent: it reads what gateways report and what proofs have shown.

mod controller;
mod decide;
mod liveness;
mod observe;

use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{ConnectorClassSpec, ConnectorStatus, LeaseRef};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use tokio::time::Instant;

use crate::connector::liveness::LivenessSignals;

pub(crate) use self::controller::controller;

#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) name: String,
    pub(crate) class_name: String,
    pub(crate) class: Option<ConnectorClassSpec>,
    /// Endpoint ids of the registered gateways, sorted.
    pub(crate) gateways: Vec<String>,
    pub(crate) status: ConnectorStatus,
    pub(crate) signals: LivenessSignals,
    /// When the last heartbeat was observed.
    pub(crate) last_sign_of_life: Option<Instant>,
    /// `renewTime` of the Lease.
    pub(crate) heartbeat: Option<Timestamp>,
    /// Whether this pass has read the Lease from the API server.
    pub(crate) confirmed: bool,
    /// The Lease expired while this process was not leading or was suspended.
    pub(crate) late_decision: bool,
    /// When the next gateway expires, if the reports of the others would then decide.
    pub(crate) contested_until: Option<Instant>,
    pub(crate) clock: Timestamp,
}

/// The status fields that the operator owns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectorStatusUpdate {
    pub(crate) lease_ref: Option<LeaseRef>,
    pub(crate) gateways: Option<Vec<String>>,
    pub(crate) relays: Option<Vec<String>>,
    pub(crate) last_seen: Option<Time>,
    pub(crate) offline_since: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// The watch shows it offline: read the Lease from the API server before reporting that.
    Confirm,
    /// It appears offline, but this process may have missed heartbeats: extend its deadline.
    ExtendGrace,
    /// Write this status.
    Publish(Box<Words>),
}

/// The status and conditions to write for a Connector.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) status: ConnectorStatusUpdate,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) note: Option<EventNote>,
    pub(crate) proof_demand: ProofDemand,
    pub(crate) requeue_after: Option<std::time::Duration>,
}

/// Whether a proof of one of its tunnels would change the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProofDemand {
    /// It would not.
    NoDemand,
    /// It would bring the connector back online.
    AwaitProof,
    /// It would keep the connector from going offline: request one now.
    ProbeNow,
}

//! The Connector: whether its class is there, which gateways it may accept, and whether it is online.
//!
//! `observe` gathers a [`Observed`], `decide` turns it into a [`Plan`], `act` takes the step that a plan
//! can ask for. Nothing here dials an agent: that is for gateways, and what they and the proofs
//! have shown is read.

mod act;
mod controller;
mod decide;
mod observe;

use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{ConnectorClassSpec, ConnectorStatus, LeaseRef};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use tokio::time::Instant;

use crate::liveness::LivenessSignals;

pub(crate) use self::controller::controller;

/// Everything that is known of one Connector.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) name: String,
    pub(crate) class_name: String,
    pub(crate) class: Option<ConnectorClassSpec>,
    /// The gateways that are registered, by endpoint id, sorted.
    pub(crate) gateways: Vec<String>,
    pub(crate) status: ConnectorStatus,
    pub(crate) signals: LivenessSignals,
    /// When the last sign of life was heard.
    pub(crate) last_sign_of_life: Option<Instant>,
    /// The heartbeat that the Lease has.
    pub(crate) heartbeat: Option<Timestamp>,
    /// Whether the server itself was asked for the Lease in this pass.
    pub(crate) confirmed: bool,
    /// When the Lease was over, nobody was there to judge: this process did not lead, or stood still.
    pub(crate) late_decision: bool,
    /// When the next gateway may count as dead, if what the others say would then decide.
    pub(crate) contested_until: Option<Instant>,
    pub(crate) clock: Timestamp,
}

/// What a status says, of what is ours to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectorStatusUpdate {
    pub(crate) lease_ref: Option<LeaseRef>,
    pub(crate) gateways: Option<Vec<String>>,
    pub(crate) relays: Option<Vec<String>>,
    pub(crate) last_seen: Option<Time>,
    pub(crate) offline_since: Option<Time>,
}

/// What follows from it.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// It would be offline by what the watch shows; the server is asked before that is said.
    Confirm,
    /// It would be offline, but it may have been us who could not hear: it is given a moment.
    ExtendGrace,
    /// Say this.
    Publish(Box<Words>),
}

/// What is said of a Connector.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) status: ConnectorStatusUpdate,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) note: Option<EventNote>,
    pub(crate) proof_demand: ProofDemand,
    pub(crate) requeue_after: Option<std::time::Duration>,
}

/// What a proof of one of its tunnels would mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProofDemand {
    /// Nothing new.
    NoDemand,
    /// That it is online after all.
    AwaitProof,
    /// That it need not go offline: one should be tried now.
    ProbeNow,
}

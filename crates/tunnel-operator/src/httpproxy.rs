//! The HTTPProxy: from its spec to children, claims and proofs. These types are shared by observing, deciding and
//! acting: the state of one tunnel and its next step. Values only.

mod act;
mod child_status;
pub(crate) mod children;
mod controller;
mod decide;
mod observe;
pub(crate) mod unowned_gateways;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{
    AppliedVersions, ChildRevision, ConnectionDetails, HostnameClaim, HttpProxy, HttpProxyStatus, TunnelTimeline,
};
use iroh_base::RelayUrl;
use jiff::Timestamp;
use tokio::time::Instant;

pub(crate) use self::controller::{NAME, controller};
use crate::probe::result::ProbeResult;

#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) proxy: Arc<HttpProxy>,
    /// Base domain of the platform hostname; none if the class that should set it does not exist.
    pub(crate) domain: Option<String>,
    /// Base domains of all classes, and the operator's own.
    pub(crate) domains: BTreeSet<String>,
    /// Hostnames of the spec whose first label belongs to the platform hostname of another tunnel, under any domain.
    pub(crate) platform_hostnames: BTreeSet<String>,
    /// The networks that the class permits for backends without a connector; empty if every backend has one.
    pub(crate) networks: Vec<String>,
    /// Wall-clock time when the pass began, for the timeline only.
    pub(crate) started_at: Timestamp,
    /// Wall-clock time, for the timeline only.
    pub(crate) now: Timestamp,
    /// Monotonic time, for measuring ages.
    pub(crate) instant: Instant,
    /// The claim on each hostname of the spec.
    pub(crate) claims: BTreeMap<String, ClaimState>,
    /// Hostnames of the spec that a Gateway without an HTTPProxy uses.
    pub(crate) unowned_gateways: BTreeMap<String, UnownedGateway>,
    /// Claims of this tunnel on hostnames that the spec no longer names.
    pub(crate) surplus_claims: BTreeSet<String>,
    /// The connectors that the spec names; `None` if one does not exist.
    pub(crate) connectors: BTreeMap<String, Option<ObservedConnector>>,
    pub(crate) replicas: Vec<ObservedReplica>,
    pub(crate) child_status_reported: bool,
    /// Whether the watches behind this are current.
    pub(crate) fresh: bool,
    /// What this pass has done so far.
    pub(crate) progress: Progress,
    /// The last proof, if one was tried.
    pub(crate) probe_result: Option<ProbeResult>,
}

/// What one pass has done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// The children, once they are up to date.
    pub(crate) written: Option<ChildrenState>,
    pub(crate) child_status_reported: bool,
    /// Rounds of proofs so far.
    pub(crate) probes: u32,
    /// Claims found when creating, before the cache has them.
    pub(crate) other_claims: BTreeMap<String, HostnameClaim>,
    /// Claimants that exist on the server although the cache does not have them.
    pub(crate) known_claimants: BTreeSet<String>,
    /// Claims that were deleted.
    pub(crate) unclaimed: BTreeSet<String>,
    /// The timeline at the last decision of this pass.
    pub(crate) timeline: Option<TunnelTimeline>,
    /// Whether a read has shown that the tunnel was deleted.
    pub(crate) deleted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChildrenState {
    /// They are up to date.
    Children(Vec<AppliedChild>),
    /// An object with a child's name does not belong to this tunnel.
    Foreign(String),
}

/// A child as stored on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedChild {
    /// Its kind, name and version, and the digest of the desired object.
    pub(crate) revision: ChildRevision,
    pub(crate) changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimState {
    Free,
    /// This tunnel; version and UID of the claim.
    Own(String, String),
    Taken {
        namespace: String,
        name: String,
    },
    Orphaned,
}

/// A Gateway without an HTTPProxy that uses a hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnownedGateway {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Whether it certainly had the hostname before this tunnel's claim was made.
    pub(crate) older: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedConnector {
    pub(crate) uid: String,
    pub(crate) version: String,
    /// How its agent is reached, once it has registered.
    pub(crate) details: Option<ConnectionDetails>,
    /// Its `Online` condition: status, reason and message.
    pub(crate) online: Option<(bool, String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedReplica {
    pub(crate) name: String,
    pub(crate) listen: String,
    pub(crate) listen_tls: Option<String>,
    pub(crate) endpoint_id: String,
    /// The versions it has acknowledged.
    pub(crate) applied: AppliedVersions,
    /// The relays that it uses, if it reports them.
    pub(crate) relays: Option<Vec<RelayUrl>>,
    /// Why it does not serve this tunnel's route, if it does not.
    pub(crate) quarantined: Option<String>,
    /// Whether it omits more routes of the namespace than it can list, so that it may or may not serve this one.
    pub(crate) quarantine_list_incomplete: bool,
    /// Whether it has no session with a connector of this tunnel.
    pub(crate) lost: bool,
}

/// The next step, and the status to write.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The next step; none if everything is up to date or has to wait.
    pub(crate) step: Option<TunnelStep>,
    /// The status, apart from conditions.
    pub(crate) status: HttpProxyStatus,
    pub(crate) conditions: Vec<Condition>,
    /// The status of the children, if it has to change.
    pub(crate) child_conditions: Option<ChildConditions>,
    pub(crate) notes: Vec<EventNote>,
    /// When to reconcile again without a change.
    pub(crate) requeue_after: Duration,
    /// Whether gateways still have to acknowledge a revision.
    pub(crate) waiting: bool,
    /// Why the spec cannot be served until it changes.
    pub(crate) rejected: Option<(&'static str, String)>,
}

/// The status of the children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildConditions {
    /// `Accepted` of Gateway and HTTPRoute.
    pub(crate) accepted: ChildCondition,
    /// `Programmed` of the Gateway.
    pub(crate) programmed: ChildCondition,
    /// `ResolvedRefs` of the HTTPRoute.
    pub(crate) resolved: ChildCondition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildCondition {
    pub(crate) status: ConditionStatus,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TunnelStep {
    Claim(String),
    /// Delete a claim: one whose claimant is gone, or one of ours that the spec does not need anymore.
    Unclaim(String),
    /// Write the children, and delete those of removed rules.
    Write,
    /// Report in the children's status whether they are served.
    Report,
    /// Prove the tunnel through every live gateway.
    Prove,
}

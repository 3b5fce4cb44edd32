//! The words that observing, deciding and acting share: what is known of one tunnel, and what to do
//! next. Values only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{
    AppliedVersions, ChildRevision, ConnectionDetails, HostnameClaim, HttpProxy, HttpProxyStatus,
    TunnelTimeline,
};
use iroh_base::RelayUrl;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::evidence::ProbeResult;

/// Everything that a decision about one tunnel rests on.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The tunnel.
    pub(crate) proxy: Arc<HttpProxy>,
    /// The base domain of the platform's hostnames; none if the class that should name it is missing.
    pub(crate) domain: Option<String>,
    /// The base domains of all classes, and the operator's own.
    pub(crate) domains: BTreeSet<String>,
    /// Hostnames of the spec whose first label the platform gives to another tunnel, under whatever domain.
    pub(crate) platform_hostnames: BTreeSet<String>,
    /// The networks that the class opens to backends without a connector; none if every backend has one.
    pub(crate) networks: Vec<String>,
    /// Wall time when the pass began, for the timeline only.
    pub(crate) started_at: Timestamp,
    /// Wall time, for the timeline only.
    pub(crate) now: Timestamp,
    /// The time that ages are measured on.
    pub(crate) instant: Instant,
    /// Who has claimed each hostname of the spec.
    pub(crate) claims: BTreeMap<String, ClaimState>,
    /// The hostnames of the spec that a Gateway without an HTTPProxy has.
    pub(crate) unowned_gateways: BTreeMap<String, UnownedGateway>,
    /// Claims of this tunnel on hostnames that the spec no longer names.
    pub(crate) surplus_claims: BTreeSet<String>,
    /// The connectors that the spec names, where they exist.
    pub(crate) connectors: BTreeMap<String, Option<ObservedConnector>>,
    /// The gateways that are alive.
    pub(crate) replicas: Vec<ObservedReplica>,
    /// Whether the status of the children says anything of ours.
    pub(crate) child_status_reported: bool,
    /// Whether the watches this rests on are current.
    pub(crate) fresh: bool,
    /// What this pass has done so far.
    pub(crate) progress: Progress,
    /// The last proof, if one was tried.
    pub(crate) probe_result: Option<ProbeResult>,
}

/// What one pass has done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// The children, once they are as wanted.
    pub(crate) written: Option<ChildrenState>,
    /// Whether the children's status says what it should.
    pub(crate) child_status_reported: bool,
    /// How many proofs were tried.
    pub(crate) probes: u32,
    /// Claims that others were first with, before the cache shows them.
    pub(crate) other_claims: BTreeMap<String, HostnameClaim>,
    /// Claimants that the server knows although the cache does not.
    pub(crate) known_claimants: BTreeSet<String>,
    /// Claims that were taken away.
    pub(crate) unclaimed: BTreeSet<String>,
    /// The stages as the last decision of this pass saw them.
    pub(crate) timeline: Option<TunnelTimeline>,
    /// Whether the tunnel turned out to be deleted.
    pub(crate) deleted: bool,
}

/// The children as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChildrenState {
    /// They are as wanted.
    Children(Vec<AppliedChild>),
    /// One is not ours to write.
    Foreign(String),
}

/// A child as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedChild {
    /// Its kind, name, version and the digest of what was asked for.
    pub(crate) revision: ChildRevision,
    /// Whether this pass changed it.
    pub(crate) changed: bool,
}

/// Who has a hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimState {
    /// Nobody.
    Free,
    /// This tunnel; with version and UID of the claim.
    Own(String, String),
    /// Another tunnel that exists.
    Taken {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// One that is gone.
    Orphaned,
}

/// A Gateway without an HTTPProxy that has a hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnownedGateway {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether it surely had the hostname before a claim of this tunnel was made.
    pub(crate) older: bool,
}

/// A connector, as far as a tunnel reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedConnector {
    /// The UID of the object.
    pub(crate) uid: String,
    /// The version of the object.
    pub(crate) version: String,
    /// How its agent is reached, once it has registered.
    pub(crate) details: Option<ConnectionDetails>,
    /// Its `Online` condition: whether it holds, its reason and message.
    pub(crate) online: Option<(bool, String, String)>,
}

/// A gateway that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedReplica {
    /// Its name.
    pub(crate) name: String,
    /// Where its public listener is.
    pub(crate) listen: String,
    /// Where its public TLS listener is.
    pub(crate) listen_tls: Option<String>,
    /// Its iroh endpoint id.
    pub(crate) endpoint_id: String,
    /// What it has taken into account.
    pub(crate) applied: AppliedVersions,
    /// The relays that it uses, if it says so.
    pub(crate) relays: Option<Vec<RelayUrl>>,
    /// Why it does not serve this tunnel's route, if it does not.
    pub(crate) quarantined: Option<String>,
    /// Whether it leaves out more routes of the namespace than it lists, so that it may serve this one or
    /// not.
    pub(crate) quarantine_list_incomplete: bool,
    /// Whether it has no session with a connector of this tunnel.
    pub(crate) lost: bool,
}

/// What to do, and what to say.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The next effect; none when everything is as it should be, or has to wait.
    pub(crate) step: Option<TunnelStep>,
    /// What the status says, conditions apart.
    pub(crate) status: HttpProxyStatus,
    /// What the conditions say.
    pub(crate) conditions: Vec<Condition>,
    /// What the status of the children says, if that is to change.
    pub(crate) child_conditions: Option<ChildConditions>,
    /// What people are told.
    pub(crate) notes: Vec<EventNote>,
    /// When to look again although nothing changed.
    pub(crate) requeue_after: Duration,
    /// Whether gateways still have to acknowledge something.
    pub(crate) waiting: bool,
    /// Why nothing will come of it until the spec changes.
    pub(crate) rejected: Option<(&'static str, String)>,
}

/// What the status of the children says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildConditions {
    /// `Accepted`, of Gateway and HTTPRoute.
    pub(crate) accepted: ChildCondition,
    /// `Programmed`, of the Gateway.
    pub(crate) programmed: ChildCondition,
    /// `ResolvedRefs`, of the HTTPRoute.
    pub(crate) resolved: ChildCondition,
}

/// What one condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildCondition {
    pub(crate) status: ConditionStatus,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TunnelStep {
    /// Take a hostname.
    Claim(String),
    /// Take away a claim: a void one, or one of ours that is no longer wanted.
    Unclaim(String),
    /// Write the children, and take away those of removed rules.
    Write,
    /// Say in the children's status whether they are served.
    Report,
    /// Prove the tunnel through every live gateway.
    Prove,
}

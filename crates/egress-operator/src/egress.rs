//! The data types that `observe`, `decide` and `act` share.
//!
//! Data only. All input of a decision is in an [`Observed`], the time included, so that the same input always gives the
//! same [`crate::decide::Plan`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use aplomb_api::egress::{StableEgressSpec, StableEgressStatus};
use jiff::Timestamp;

/// The input of a decision.
#[derive(Clone, Debug)]
pub struct Observed {
    pub name: String,
    pub spec: StableEgressSpec,
    /// Value of the annotation `egress.aplomb.dev/hold`.
    pub hold: Option<String>,
    /// Its status: from the last plan of this process, or else from the object; with the conditions of the object.
    pub status: StableEgressStatus,
    /// Wall time: grace periods, holds and moves outlast a process.
    pub now: Timestamp,
    /// Time since this process started, unaffected by clock adjustments; used for pacing.
    pub uptime: Duration,
    /// How long this process has been the leader: a grace period that does not survive a restart begins with it.
    pub leading_for: Duration,
    /// The nodes that are candidates, have a gateway label or hold the floating IP, by name.
    pub nodes: Vec<CandidateNode>,
    /// Why the pods that prepare nodes are not watched, if so: then no node is known to be prepared.
    pub unwatched: Option<String>,
    /// Nodes already reported as permanently unusable.
    pub reported_unusable: BTreeSet<String>,
    pub floating_ip: FloatingIpState,
    /// In-memory state of a move in progress.
    pub moving: Option<MoveInProgress>,
    /// The term of this leader; 0 without leader election.
    pub term: u64,
}

/// A node as input of the election.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateNode {
    pub name: String,
    /// Its server ID at the provider, from `spec.providerID`; `None` if that has another form.
    pub server: Option<i64>,
    pub candidate: bool,
    /// Whether it has the gateway labels of this StableEgress: all of them, or some.
    pub labels: LabelState,
    /// The foreign value of one of our gateway label keys.
    pub conflicting_label: Option<String>,
    /// The labels of the CiliumNode, if there is one.
    pub cilium: Option<LabelState>,
    pub ready: NodeReady,
    pub cordoned: bool,
    pub terminating: bool,
    /// Whether a pod that prepares it is Ready on it; true if none is required.
    pub prepared: bool,
    /// The probe result; `None` if there is another signal, or no probe yet.
    pub probe_result: Option<NodeProbeResult>,
}

impl CandidateNode {
    /// Whether it is a candidate that can never be elected as it is, whatever its health.
    #[must_use]
    pub const fn is_unusable(&self) -> bool {
        self.candidate && (self.conflicting_label.is_some() || self.server.is_none())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelState {
    #[default]
    None,
    /// Some, or with another term.
    Some,
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeReady {
    True,
    False,
    /// `Unknown`, or missing.
    #[default]
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeProbeResult {
    /// Consecutive failures; 0 if the last probe succeeded.
    pub failures: u32,
    /// Whether another replica has a recent report that it reaches the node.
    pub disputed: bool,
}

#[derive(Clone, Debug, Default)]
pub struct FloatingIpState {
    /// The floating IP as it was last read.
    pub observed: Option<ObservedFloatingIp>,
    /// Why the last call failed; cleared by a success.
    pub trouble: Option<ProviderTrouble>,
    /// When the failures began, in this process's time.
    pub trouble_since: Option<Duration>,
    /// When a call last failed, in this process's time. `decide` paces retries by it.
    pub trouble_at: Option<Duration>,
    pub troubles: u32,
    /// Pause after it, according to the refill rate; one second if that is unknown.
    pub retry_delay: Option<Duration>,
    /// The failed write of this leader's term; cleared by a success.
    pub term_failure: Option<ClaimFailed>,
    /// Earliest time for a routine read. Failover reads ignore it.
    pub next_read_at: Option<Duration>,
    pub budget: Option<RemainingCalls>,
    /// Interval of routine reads, given the budget: at least `spec.resync`.
    pub resync: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ObservedFloatingIp {
    pub id: i64,
    /// Its address; the first of the network for IPv6.
    pub ip: IpAddr,
    pub server: Option<i64>,
    pub blocked: bool,
    /// The term label that a leader wrote on it; 0 without one.
    pub term: u64,
    /// When it was read, in this process's time.
    pub at: Duration,
}

/// The most calls a move needs: an Assign, its repetitions, polls and reads.
pub const RESERVE: u32 = 30;

/// The rate limit as the provider reported it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemainingCalls {
    pub limit: u32,
    pub remaining: u32,
}

impl RemainingCalls {
    /// How many of the last calls are kept for a move: [`RESERVE`], but at most half of a small limit.
    #[must_use]
    pub fn reserved_calls(&self) -> u32 {
        RESERVE.min(self.limit / 2)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderTrouble {
    /// The token is missing; the message says where to put it.
    NoToken(String),
    Unauthorized,
    NotFound,
    /// The rate limit, or our share of it, is exhausted.
    Throttled,
    /// The server or the floating IP is locked by another action.
    Locked,
    /// No response, or a response that the provider is down.
    Unreachable(String),
    /// The provider refuses permanently: its code.
    Refused(String),
    /// An action failed: its code.
    ActionFailed(String),
}

/// A failed write of this leader's term. It is timed separately: it delays only the next such write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFailed {
    pub trouble: ProviderTrouble,
    /// When it failed, in this process's time.
    pub at: Duration,
    pub failures: u32,
    pub replaced_term: u64,
}

/// In-memory state of a move in progress: created by the first Assign, whatever its result, and dropped when a plan's
/// status has no move.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveInProgress {
    pub node: String,
    pub server: i64,
    pub action: Option<ObservedAction>,
    /// Whether the floating IP was read since its holder last became uncertain. It becomes uncertain with an Assign
    /// that was neither throttled nor locked out, with the end of an action, and with a lock that lasts, which may
    /// belong to an Assign whose response was lost.
    pub read_since: bool,
    /// How many Assigns to this node were refused or ended in an error. Throttled, locked and unanswered ones do not
    /// count.
    pub refusals: u32,
    /// Consecutive Assigns to this node that met a lock of its server or of the floating IP; the provider does not
    /// distinguish them.
    pub locks: u32,
    /// The servers that failed before it in this round.
    pub skipped_servers: BTreeSet<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ObservedAction {
    pub id: i64,
    pub state: ActionState,
    /// When it was accepted, in this process's time.
    pub accepted_at: Duration,
    pub polled_at: Duration,
    pub polls: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionState {
    Running,
    Success,
    /// Failed: its code.
    Error(String),
}

/// The gateway labels of a StableEgress, with defaults filled in.
#[must_use]
pub fn gateway_labels(name: &str, spec: &StableEgressSpec) -> BTreeMap<String, String> {
    if spec.gateway_labels.is_empty() {
        let label = aplomb_api::egress::labels::GATEWAY.to_owned();
        return [(label, name.to_owned())].into();
    }
    spec.gateway_labels.clone()
}

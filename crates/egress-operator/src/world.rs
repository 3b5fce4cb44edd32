//! What `observe` gathers, what `decide` answers and what `act` carries out: the words the three share.
//!
//! Data only. Everything a decision depends on is in a [`Observed`], the time included, so that the same
//! world always leads to the same [`Plan`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use aplomb::{Condition, EventNote};
use aplomb_api::egress::{MoveCause, StableEgressSpec, StableEgressStatus};
use jiff::Timestamp;

/// Everything a decision depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The StableEgress.
    pub name: String,
    /// What is asked for.
    pub spec: StableEgressSpec,
    /// The annotation `egress.aplomb.dev/hold`, as it was written.
    pub hold: Option<String>,
    /// What was said of it last: by the last plan of this process, or else by the object; with the
    /// conditions that the object has.
    pub status: StableEgressStatus,
    /// Wall time: graces, holds and moves outlive a process.
    pub now: Timestamp,
    /// Time since this process began, which no clock adjustment moves: pacing.
    pub uptime: Duration,
    /// How long this process has been the leader: a grace that shall not survive a restart starts
    /// anew with it.
    pub leading_for: Duration,
    /// The nodes that are candidates, carry a gateway label or hold the floating IP, by name.
    pub nodes: Vec<CandidateNode>,
    /// Why the pods that prepare nodes cannot be seen, if so: nobody can tell then who is prepared.
    pub unwatched: Option<String>,
    /// The nodes of which was told already that they can never be chosen as they are.
    pub reported_unusable: BTreeSet<String>,
    /// What is known of the floating IP.
    pub floating_ip: FloatingIpState,
    /// What this process remembers of a move under way.
    pub moving: Option<MoveInProgress>,
    /// The term of this leader; 0 without leader election.
    pub term: u64,
}

/// A node as the election sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateNode {
    /// Its name.
    pub name: String,
    /// Its server at the provider, from `spec.providerID`; `None` where that is of another form.
    pub server: Option<i64>,
    /// Whether the selector chooses it.
    pub candidate: bool,
    /// Whether it carries the gateway labels of this StableEgress: all of them, or some.
    pub labels: LabelState,
    /// The value that another owner has given to the key of one of our gateway labels.
    pub conflicting_label: Option<String>,
    /// What CiliumNode says, where there is one.
    pub cilium: Option<LabelState>,
    /// Its Ready condition.
    pub ready: NodeReady,
    /// Whether new pods are kept away.
    pub cordoned: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether a pod that prepares it is Ready on it; true where none is asked for.
    pub prepared: bool,
    /// What probing it has shown; `None` where the signal is another, or it was not probed yet.
    pub probe_result: Option<NodeProbeResult>,
}

impl CandidateNode {
    /// Whether it is a candidate that can never be chosen as it is, whatever its health.
    #[must_use]
    pub const fn is_unusable(&self) -> bool {
        self.candidate && (self.conflicting_label.is_some() || self.server.is_none())
    }
}

/// Whether a node carries the gateway labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelState {
    /// None of them.
    #[default]
    None,
    /// Some, or with another term.
    Some,
    /// All.
    All,
}

/// A node's Ready condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeReady {
    /// It says so.
    True,
    /// It says that it is not.
    False,
    /// It has said nothing for too long, or never.
    #[default]
    Unknown,
}

/// What probing a node has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeProbeResult {
    /// Failures in a row, up to the last probe. 0: it answered.
    pub failures: u32,
    /// Whether another replica that looked as recently disagrees: it can reach the node.
    pub disputed: bool,
}

/// What is known of the floating IP.
#[derive(Clone, Debug, Default)]
pub struct FloatingIpState {
    /// The floating IP as it was last seen.
    pub observed: Option<ObservedFloatingIp>,
    /// Why the last look or call failed; cleared by one that succeeds.
    pub trouble: Option<ProviderTrouble>,
    /// When trouble began, in this process's time.
    pub trouble_since: Option<Duration>,
    /// When a call failed last, in this process's time. `decide` paces what follows.
    pub trouble_at: Option<Duration>,
    /// How many calls have failed in a row.
    pub troubles: u32,
    /// How long to wait after it, as the rate limit fills; where nobody knows, a second.
    pub retry_delay: Option<Duration>,
    /// The write of this leader's term, if it failed; cleared by one that succeeds.
    pub term_failure: Option<ClaimFailed>,
    /// Not before this may a look that can wait be tried, as the budget says. A move does not mind.
    pub next_read_at: Option<Duration>,
    /// What is left of the rate limit.
    pub budget: Option<RemainingCalls>,
    /// How often to look, given the budget: at least `spec.resync`.
    pub resync: Duration,
}

/// The floating IP as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedFloatingIp {
    /// Its id.
    pub id: i64,
    /// Its address; the first of the network for IPv6.
    pub ip: IpAddr,
    /// The server that holds it.
    pub server: Option<i64>,
    /// Whether the provider has blocked it.
    pub blocked: bool,
    /// The term that a leader wrote on it; 0 without one.
    pub term: u64,
    /// When it was read, in this process's time.
    pub at: Duration,
}

/// What a move needs at worst: an Assign, its repetitions, polls and reads.
pub const RESERVE: u32 = 30;

/// What the provider has said of its rate limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemainingCalls {
    /// How many calls an hour.
    pub limit: u32,
    /// How many are left.
    pub remaining: u32,
}

impl RemainingCalls {
    /// How many of the last calls are kept for a move: [`RESERVE`], but of a small limit no more than half.
    #[must_use]
    pub fn reserved_calls(&self) -> u32 {
        RESERVE.min(self.limit / 2)
    }
}

/// What went wrong with a call to the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderTrouble {
    /// There is no token: a sentence that says where it should be.
    NoToken(String),
    /// The token is refused.
    Unauthorized,
    /// There is no such floating IP.
    NotFound,
    /// The rate limit is used up, or our share of it.
    Throttled,
    /// The server or the floating IP is locked by another action.
    Locked,
    /// No answer, or one that says that it is down.
    Unreachable(String),
    /// The provider will not do it, whatever is tried: its code.
    Refused(String),
    /// An action ended in an error: its code.
    ActionFailed(String),
}

/// A write of this leader's term that failed. It has a clock of its own: it delays the next such write
/// and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFailed {
    /// Why the last one failed.
    pub trouble: ProviderTrouble,
    /// When it did, in this process's time.
    pub at: Duration,
    /// How many have failed in a row.
    pub failures: u32,
    /// The term that was to be replaced.
    pub replaced_term: u64,
}

/// A move under way, as this process remembers it: made by the first Assign that was sent, whatever
/// came back, and forgotten when a plan's status has no move.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveInProgress {
    /// The node.
    pub node: String,
    /// Its server.
    pub server: i64,
    /// The action that was accepted, if one was.
    pub action: Option<ObservedAction>,
    /// Whether the floating IP was read since the last doubt about who holds it. An Assign leaves a
    /// doubt unless it was throttled or locked out, and so does the end of an action, and a lock that lasts:
    /// the lock may be that of an Assign whose answer was lost.
    pub read_since: bool,
    /// How many Assigns to this node were refused for good or ended in an error; being throttled,
    /// locked out or without an answer does not count.
    pub refusals: u32,
    /// How many Assigns to this node in a row met a lock: its server's or the floating IP's own, which
    /// the provider does not tell apart.
    pub locks: u32,
    /// The servers that were tried before it in this round, and did not take the floating IP.
    pub skipped_servers: BTreeSet<i64>,
}

/// An action of the provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedAction {
    /// Its id.
    pub id: i64,
    /// How it stands.
    pub state: ActionState,
    /// When it was accepted, in this process's time.
    pub accepted_at: Duration,
    /// When it was last asked for.
    pub polled_at: Duration,
    /// How often it was asked for.
    pub polls: u32,
}

/// How an action stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionState {
    /// On its way.
    Running,
    /// Done.
    Success,
    /// Ended in an error: its code.
    Error(String),
}

/// What to do next, and what to say.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The next step; without one there is nothing to do until `again`.
    pub step: Option<Step>,
    /// When to look again, from now, when there is no step.
    pub requeue_after: Duration,
    /// What the status shall say, conditions apart.
    pub status: StableEgressStatus,
    /// The conditions, Ready among them. One of ours that is not here does not apply.
    pub conditions: Vec<Condition>,
    /// What to tell people: what all plans of a pass say is told when it ends, each once.
    pub notes: Vec<EventNote>,
}

/// One effect. Each may be repeated without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the floating IP: a look that can wait, or one that a move needs.
    Read {
        /// Whether a move waits for it.
        urgent: bool,
    },
    /// Write this leader's term on the floating IP.
    WriteTerm,
    /// Assign the floating IP to a node's server.
    Assign {
        /// The node.
        node: String,
        /// Its server.
        server: i64,
        /// Why.
        cause: MoveCause,
    },
    /// Ask how the action stands.
    Poll {
        /// Its id.
        action: i64,
    },
    /// Take the gateway labels from a node.
    Strip {
        /// The node.
        node: String,
        /// On which object.
        on: LabelTarget,
    },
    /// Give the gateway labels to a node.
    Label {
        /// The node.
        node: String,
        /// On which object.
        on: LabelTarget,
    },
}

/// Which object of a node carries labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelTarget {
    /// The Node.
    Node,
    /// The CiliumNode of the same name.
    CiliumNode,
}

/// The gateway labels of a StableEgress, its defaults filled in.
#[must_use]
pub fn gateway_labels(name: &str, spec: &StableEgressSpec) -> BTreeMap<String, String> {
    if spec.gateway_labels.is_empty() {
        let label = aplomb_api::egress::labels::GATEWAY.to_owned();
        return [(label, name.to_owned())].into();
    }
    spec.gateway_labels.clone()
}

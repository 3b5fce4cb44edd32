//! Names of `StableEgress` that users and programs match on. They are an interface: changing one breaks
//! alerts and scripts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Labels.
pub mod labels {
    /// On a node that may become the gateway; the value is the name of the StableEgress.
    pub const CANDIDATE: &str = "egress.aplomb.dev/candidate";
    /// On the node that is the gateway; the value is the name of the StableEgress.
    pub const GATEWAY: &str = "egress.aplomb.dev/gateway";
    /// On the floating IP at the provider: the term of the leader that last changed it. Hetzner's label keys
    /// follow the rules of Kubernetes.
    pub const TERM: &str = "egress.aplomb.dev/term";
}

/// Annotations.
pub mod annotations {
    /// Freezes automation: `true`, or the time at which the hold ends.
    pub const HOLD: &str = "egress.aplomb.dev/hold";
    /// Prefix of the annotation that records the term of the leader that made a node the gateway. The
    /// suffix is the name of the StableEgress.
    pub const TERM: &str = "term.egress.aplomb.dev/";
}

/// Types of conditions, in addition to Ready, Reconciling and Stalled.
pub mod conditions {
    /// Traffic can leave through the floating IP, as far as the operator can observe.
    pub const AVAILABLE: &str = "Available";
    /// The provider responds.
    pub const PROVIDER_REACHABLE: &str = "ProviderReachable";
    /// Another node could take over now.
    pub const REDUNDANT: &str = "Redundant";
    /// The labels of Node and CiliumNode agree on the gateway.
    pub const LABELS_CONSISTENT: &str = "LabelsConsistent";
    /// Automation is frozen.
    pub const HELD: &str = "Held";
    /// The floating IP has the leader's term. Set only to False, when the label cannot be written.
    pub const FENCED: &str = "Fenced";
}

/// Reasons of conditions and Events.
pub mod reasons {
    /// The floating IP is on the gateway.
    pub const SERVING: &str = "Serving";
    /// The floating IP is outside `spec.allowlist`.
    pub const NOT_ALLOWED: &str = "AddressNotAllowed";
    /// `spec.prepared` names a namespace whose pods the operator does not watch.
    pub const PODS_NOT_WATCHED: &str = "PodsNotWatched";
    /// The provider does not respond.
    pub const PROVIDER_UNREACHABLE: &str = "ProviderUnreachable";
    /// The provider rejects the token.
    pub const UNAUTHORIZED: &str = "TokenRefused";
    /// The API token is missing.
    pub const NO_TOKEN: &str = "NoToken";
    /// The provider's rate limit leaves no calls for a routine read.
    pub const THROTTLED: &str = "Throttled";
    /// The floating IP does not exist.
    pub const NO_FLOATING_IP: &str = "FloatingIPNotFound";
    /// The provider has blocked the floating IP.
    pub const BLOCKED: &str = "FloatingIPBlocked";
    /// The floating IP is on a server that is not the elected node.
    pub const ELSEWHERE: &str = "HeldElsewhere";
    /// The floating IP is on no server.
    pub const UNASSIGNED: &str = "Unassigned";
    /// No node can take the floating IP.
    pub const NO_CANDIDATE: &str = "NoCandidate";
    /// The gateway is unhealthy and its grace period is running.
    pub const GATEWAY_UNHEALTHY: &str = "GatewayUnhealthy";
    /// The gateway is not prepared and its grace period is running.
    pub const GATEWAY_UNPREPARED: &str = "GatewayUnprepared";
    /// The floating IP is being moved.
    pub const MOVING: &str = "Moving";
    /// The labels are not yet on the node with the floating IP.
    pub const UNLABELLED: &str = "GatewayUnlabelled";
    /// A user has frozen automation.
    pub const HELD: &str = "Held";
    /// The last check is too long ago.
    pub const STALE: &str = "Stale";
    /// A move took longer than `spec.moveDeadline`.
    pub const DEADLINE: &str = "MoveDeadlineExceeded";
    /// The floating IP moved.
    pub const MOVED: &str = "Moved";
    /// Automation is not frozen.
    pub const NOT_HELD: &str = "NotHeld";
    /// The provider rejects the label with the leader's term, or does not respond to its write.
    pub const TERM_NOT_WRITTEN: &str = "TermNotWritten";
    /// The provider responds.
    pub const ANSWERS: &str = "Answers";
    /// Another node could take over now.
    pub const STANDBY: &str = "StandbyReady";
    /// No other node could take over now.
    pub const NO_STANDBY: &str = "NoStandby";
    /// The labels of Node and CiliumNode agree.
    pub const CONSISTENT: &str = "Consistent";
    /// The labels of Node and CiliumNode differ about the gateway.
    pub const INCONSISTENT: &str = "LabelsDiffer";
    /// A node cannot be used: its `spec.providerID` does not name a server of the provider.
    pub const NO_SERVER: &str = "NodeWithoutServer";
    /// A node cannot be used: another party has set its gateway label.
    pub const TAKEN: &str = "GatewayLabelTaken";
    /// A newer leader has acted on the floating IP.
    pub const NEWER_LEADER: &str = "NewerLeader";
}

/// Why the floating IP was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MoveCause {
    /// It was on no server, or on one that was never a candidate.
    Unassigned,
    /// The node was deleted.
    NodeDeleted,
    /// The node is being deleted.
    NodeTerminating,
    /// The node was cordoned.
    NodeCordoned,
    /// The node stopped being a candidate.
    CandidateLost,
    /// The node was unhealthy for longer than its grace period.
    NodeUnhealthy,
    /// The node was unprepared for longer than its grace period.
    NodeUnprepared,
    /// `spec.pin` names another node.
    Pinned,
    /// Another party had moved it, and `spec.respectForeignMoves` is over.
    TakenBack,
    /// Another party moved it to another candidate; the labels followed.
    Adopted,
}

impl MoveCause {
    /// The name in status and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unassigned => "Unassigned",
            Self::NodeDeleted => "NodeDeleted",
            Self::NodeTerminating => "NodeTerminating",
            Self::NodeCordoned => "NodeCordoned",
            Self::CandidateLost => "CandidateLost",
            Self::NodeUnhealthy => "NodeUnhealthy",
            Self::NodeUnprepared => "NodeUnprepared",
            Self::Pinned => "Pinned",
            Self::TakenBack => "TakenBack",
            Self::Adopted => "Adopted",
        }
    }
}

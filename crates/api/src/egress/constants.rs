//! The words of `StableEgress` that people and programs match on. They are an interface: a change of
//! one breaks somebody's alert.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Labels.
pub mod labels {
    /// On a node that may become the gateway; the value is the name of the StableEgress.
    pub const CANDIDATE: &str = "egress.aplomb.dev/candidate";
    /// On the node that is the gateway; the value is the name of the StableEgress.
    pub const GATEWAY: &str = "egress.aplomb.dev/gateway";
    /// On the floating IP at the provider: the term of the leader that acted last. Hetzner's label keys
    /// follow Kubernetes' rules.
    pub const TERM: &str = "egress.aplomb.dev/term";
}

/// Annotations.
pub mod annotations {
    /// Freezes automation: `true`, or a time until which.
    pub const HOLD: &str = "egress.aplomb.dev/hold";
    /// What the annotation of a gateway begins with that has the term of the leader that made it one;
    /// the rest is the name of the StableEgress.
    pub const TERM: &str = "term.egress.aplomb.dev/";
}

/// Types of conditions, beside Ready, Reconciling and Stalled.
pub mod conditions {
    /// Traffic can leave through the floating IP, as far as can be seen from here.
    pub const AVAILABLE: &str = "Available";
    /// The provider answers.
    pub const PROVIDER_REACHABLE: &str = "ProviderReachable";
    /// Another node could take over now.
    pub const REDUNDANT: &str = "Redundant";
    /// Node and CiliumNode say the same about who is the gateway.
    pub const LABELS_CONSISTENT: &str = "LabelsConsistent";
    /// Automation is frozen.
    pub const HELD: &str = "Held";
    /// The floating IP carries the leader's term. Shown only as False: the label cannot be written.
    pub const FENCED: &str = "Fenced";
}

/// Reasons of conditions and Events.
pub mod reasons {
    /// All is well.
    pub const SERVING: &str = "Serving";
    /// The floating IP is outside `spec.allowlist`.
    pub const NOT_ALLOWED: &str = "AddressNotAllowed";
    /// `spec.prepared` names a namespace whose pods the operator does not watch.
    pub const PODS_NOT_WATCHED: &str = "PodsNotWatched";
    /// The provider does not answer.
    pub const PROVIDER_UNREACHABLE: &str = "ProviderUnreachable";
    /// The provider refuses the token.
    pub const UNAUTHORIZED: &str = "TokenRefused";
    /// There is no token.
    pub const NO_TOKEN: &str = "NoToken";
    /// The provider's rate limit leaves nothing for a look.
    pub const THROTTLED: &str = "Throttled";
    /// There is no such floating IP.
    pub const NO_FLOATING_IP: &str = "FloatingIPNotFound";
    /// The provider has blocked the floating IP.
    pub const BLOCKED: &str = "FloatingIPBlocked";
    /// The floating IP is on a server that is not the elected node.
    pub const ELSEWHERE: &str = "HeldElsewhere";
    /// The floating IP is on no server.
    pub const UNASSIGNED: &str = "Unassigned";
    /// No node can take the floating IP.
    pub const NO_CANDIDATE: &str = "NoCandidate";
    /// The gateway is unhealthy and its grace is running.
    pub const GATEWAY_UNHEALTHY: &str = "GatewayUnhealthy";
    /// The gateway is not prepared and its grace is running.
    pub const GATEWAY_UNPREPARED: &str = "GatewayUnprepared";
    /// The floating IP is on its way.
    pub const MOVING: &str = "Moving";
    /// Labels are not yet where the floating IP is.
    pub const UNLABELLED: &str = "GatewayUnlabelled";
    /// A person asked for it.
    pub const HELD: &str = "Held";
    /// It was not looked at for too long.
    pub const STALE: &str = "Stale";
    /// A move took longer than `spec.moveDeadline`.
    pub const DEADLINE: &str = "MoveDeadlineExceeded";
    /// The floating IP moved.
    pub const MOVED: &str = "Moved";
    /// Automation is not frozen.
    pub const NOT_HELD: &str = "NotHeld";
    /// The provider refuses the label with the leader's term, or does not answer when it is written.
    pub const TERM_NOT_WRITTEN: &str = "TermNotWritten";
    /// The provider answers.
    pub const ANSWERS: &str = "Answers";
    /// Another node could take over now.
    pub const STANDBY: &str = "StandbyReady";
    /// No other node could take over now.
    pub const NO_STANDBY: &str = "NoStandby";
    /// Node and CiliumNode say the same.
    pub const CONSISTENT: &str = "Consistent";
    /// Node and CiliumNode say different things about who is the gateway.
    pub const INCONSISTENT: &str = "LabelsDiffer";
    /// A node cannot be used: its `spec.providerID` names no server of the provider.
    pub const NO_SERVER: &str = "NodeWithoutServer";
    /// A node cannot be used: its gateway label belongs to somebody else.
    pub const TAKEN: &str = "GatewayLabelTaken";
    /// A newer leader has acted on the floating IP.
    pub const NEWER_LEADER: &str = "NewerLeader";
}

/// Why the floating IP was moved.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum MoveCause {
    /// It was on no server, or on one that was never ours.
    Unassigned,
    /// The node is gone.
    NodeDeleted,
    /// The node is being deleted.
    NodeTerminating,
    /// The node was cordoned.
    NodeCordoned,
    /// The node is no candidate any more.
    CandidateLost,
    /// The node was unhealthy for longer than its grace.
    NodeUnhealthy,
    /// The node was unprepared for longer than its grace.
    NodeUnprepared,
    /// `spec.pin` asks for it.
    Pinned,
    /// Somebody moved it, and the time that is respected is over.
    TakenBack,
    /// Somebody moved it to another candidate; the labels followed.
    Adopted,
}

impl MoveCause {
    /// The word, as status and metrics have it.
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

//! The operator of CoderWorkspaceProxy: registrations, the Secret with a proxy's token, and its pods.

mod act;
mod children;
pub(crate) mod controller;
mod decide;
pub(crate) mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aplomb::{Condition, EventNote, ObjectKey};
use aplomb_api::coder::{
    CoderWorkspaceProxy, CoderWorkspaceProxyStatus, PendingProxy, RetiringProxy, SecretKeyRef, ServerBinding,
};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::access::{Access, AccessDenied};
use crate::blocked::{Blocked, CallResult, End};
use crate::children_state::{DeploymentState, RememberedState, SecretState};
use crate::client::{Entitlements, WorkspaceProxy};
use crate::server::{MaxAge, Timestamped};

/// Everything that is known when a step is decided.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) object: Arc<CoderWorkspaceProxy>,
    pub(crate) status: CoderWorkspaceProxyStatus,
    pub(crate) now: Timestamp,
    pub(crate) instant: Instant,
    /// When this pass began.
    pub(crate) pass_started: Instant,
    /// The server that the proxy is registered at, if the operator is to do that.
    pub(crate) access: Option<Result<Access, AccessDenied>>,
    /// The servers of records whose token is still where it was.
    pub(crate) bound_scopes: BTreeSet<ProxyScope>,
    /// Whether the Secret with today's token is kept for as long as it is needed.
    pub(crate) secret_kept: bool,
    pub(crate) secret: SecretState,
    pub(crate) deployment: Option<DeploymentState>,
    pub(crate) progress: Progress,
    /// The name that was certainly not asked for yet, and the id of the proxy whose token is in memory.
    pub(crate) remembered: RememberedState,
}

impl Observed {
    /// The Secret with today's token.
    pub(crate) fn token_secret(&self) -> Option<ObjectKey> {
        let access = self.access.as_ref()?.as_ref().ok()?;
        let name = &access.binding.token_secret_ref.name;
        Some(ObjectKey::new(self.object.metadata.namespace.as_deref(), name))
    }
}

/// A server as a token sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProxyScope {
    url: String,
    fingerprint: String,
}

impl ProxyScope {
    pub(crate) fn for_binding(binding: &ServerBinding) -> Self {
        Self {
            url: binding.server_url.clone(),
            fingerprint: binding.token_fingerprint.clone(),
        }
    }
}

/// The registration in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyRegistration {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) binding: ServerBinding,
}

/// Result of a read of a proxy.
pub(crate) type ProxyLookup = CallResult<Arc<Timestamped<Option<WorkspaceProxy>>>>;

/// What this pass has seen of servers so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) entitlements: Option<CallResult<Arc<Timestamped<Entitlements>>>>,
    /// Proxies by name or id.
    pub(crate) proxies: BTreeMap<(ProxyScope, String), ProxyLookup>,
    /// Why the last effect on the registration in use did not happen.
    pub(crate) blocked: Option<Blocked>,
    /// Why registrations were not taken back.
    pub(crate) deregister_blocked: Vec<(RetiringProxy, Blocked)>,
    /// Why looks were put off that older ones stand in for.
    pub(crate) deferred: Vec<Blocked>,
    /// The proxy whose new token was put into the Secret in this pass: its id.
    pub(crate) token_stored: Option<String>,
    /// Whether the server was told the looks.
    pub(crate) display_sent: bool,
    /// Registrations that were taken back in this pass, by id.
    pub(crate) deleted: Vec<String>,
    /// Whether the children are as they should be.
    pub(crate) applied: bool,
    pub(crate) drained: bool,
    pub(crate) finalized: bool,
    pub(crate) released: bool,
}

/// One effect.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Finalize,
    Entitlements,
    /// Looks for a proxy by name or id.
    Read(ServerBinding, String, MaxAge),
    /// Registers the pending name, and puts the token into the Secret.
    Register(PendingProxy),
    /// Has the server make a new token, and puts it into the Secret.
    RotateToken(ProxyRegistration),
    /// Puts a token into the Secret that could not be put there before.
    Store(String),
    /// Tells the server the looks.
    PatchDisplay(ProxyRegistration),
    Apply(Children),
    Drain,
    /// Takes a registration back.
    Deregister(RetiringProxy),
    /// Lets the object go.
    Release,
}

/// What the children are made from besides the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Children {
    pub(crate) url: String,
    pub(crate) image: String,
    pub(crate) secret: SecretKeyRef,
    /// The id of the proxy whose token the Secret holds. Without one the Secret is a person's.
    pub(crate) id: Option<String>,
    pub(crate) ca: Option<String>,
    /// Whether Secrets of other names may go.
    pub(crate) prune: bool,
}

/// What is to be said and done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) status: CoderWorkspaceProxyStatus,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) notes: Vec<EventNote>,
    /// Registrations that are left behind: their server and name.
    pub(crate) orphans: Vec<(String, String)>,
    /// Whether it waits until the Secret with today's token is kept.
    pub(crate) needs_secret: bool,
    /// The next effect. Without one the pass is over.
    pub(crate) step: Option<Step>,
    pub(crate) end: End,
}

//! The operator of CoderProvisioner: keys, the Secret they are in, and the daemons that use them.

pub(crate) mod act;
pub(crate) mod children;
pub(crate) mod controller;
pub(crate) mod decide;
pub(crate) mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aplomb::{Condition, EventNote, ObjectKey};
use aplomb_api::coder::{CoderProvisioner, CoderProvisionerStatus, KeyRecord, SecretKeyRef, ServerBinding};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::access::{Access, AccessDenied};
use crate::blocked::{Blocked, CallResult, End};
use crate::children_state::{DeploymentState, RememberedState, SecretState};
use crate::client::{self, Entitlements, Organization, ProvisionerKeyDaemons};
use crate::server::{MaxAge, Timestamped};

/// Everything that is known when a step is decided.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) object: Arc<CoderProvisioner>,
    pub(crate) status: CoderProvisionerStatus,
    pub(crate) now: Timestamp,
    pub(crate) instant: Instant,
    /// When this pass began.
    pub(crate) pass_started: Instant,
    pub(crate) access: Result<Access, AccessDenied>,
    /// The bindings of records whose token is still where it was.
    pub(crate) bound_scopes: BTreeSet<KeyScope>,
    /// Names of keys that other objects claim where this one has its own.
    pub(crate) foreign_claims: BTreeSet<String>,
    /// Whether the Secret with today's token is kept for as long as it is needed.
    pub(crate) secret_kept: bool,
    pub(crate) secret: SecretState,
    pub(crate) deployment: Option<DeploymentState>,
    pub(crate) progress: Progress,
    pub(crate) remembered: RememberedState,
}

impl Observed {
    /// The Secret with today's token.
    pub(crate) fn token_secret(&self) -> Option<ObjectKey> {
        let access = self.access.as_ref().ok()?;
        let name = &access.binding.token_secret_ref.name;
        Some(ObjectKey::new(self.object.metadata.namespace.as_deref(), name))
    }
}

/// Where keys are: an organization of a server, as a token sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyScope {
    pub(crate) url: String,
    pub(crate) fingerprint: String,
    pub(crate) organization: String,
}

impl KeyScope {
    pub(crate) fn new(binding: &ServerBinding, organization: &str) -> Self {
        Self {
            url: binding.server_url.clone(),
            fingerprint: binding.token_fingerprint.clone(),
            organization: organization.to_owned(),
        }
    }

    pub(crate) fn for_key(key: &KeyRecord) -> Self {
        Self::new(&key.binding, &key.organization_id)
    }
}

/// What this pass has seen of servers so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) entitlements: Option<CallResult<Arc<Timestamped<Entitlements>>>>,
    pub(crate) organization: Option<CallResult<Organization>>,
    pub(crate) keys: BTreeMap<KeyScope, CallResult<Arc<Timestamped<Vec<client::ProvisionerKey>>>>>,
    pub(crate) daemons: BTreeMap<KeyScope, CallResult<Arc<Timestamped<Vec<ProvisionerKeyDaemons>>>>>,
    /// Why looks were put off that older ones stand in for.
    pub(crate) deferred: Vec<Blocked>,
    /// Why the pending key was not made.
    pub(crate) create_blocked: Option<Blocked>,
    /// Why keys were not deleted.
    pub(crate) undeleted: Vec<(KeyRecord, Blocked)>,
    /// The key that was made in this pass, and when by the server's clock.
    pub(crate) created: Option<(String, Timestamp)>,
    /// Keys that were deleted in this pass, by name.
    pub(crate) deleted: Vec<KeyRecord>,
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
    Organization,
    Keys(BoundKeyScope, MaxAge),
    Daemons(BoundKeyScope, MaxAge),
    /// Asks the server for the pending key, and puts it into the Secret.
    Create(KeyRecord),
    /// Puts a key into the Secret that could not be put there before.
    Store(KeyRecord),
    Apply(Children),
    Drain,
    /// Deletes a key at its server.
    Delete(KeyRecord),
    /// Lets the object go.
    Release,
}

/// Where to look, and with whose token.
#[derive(Clone, Debug)]
pub(crate) struct BoundKeyScope {
    pub(crate) place: KeyScope,
    pub(crate) binding: ServerBinding,
}

impl BoundKeyScope {
    pub(crate) fn new(binding: &ServerBinding, organization: &str) -> Self {
        Self {
            place: KeyScope::new(binding, organization),
            binding: binding.clone(),
        }
    }
}

/// What the children are made from besides the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Children {
    pub(crate) url: String,
    pub(crate) image: String,
    pub(crate) secret: SecretKeyRef,
    pub(crate) key_name: String,
    pub(crate) ca: Option<String>,
    /// When pods were last started again.
    pub(crate) restarted: Option<String>,
    /// Whether Secrets of other names may go.
    pub(crate) prune: bool,
}

/// What is to be said and done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) status: CoderProvisionerStatus,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) notes: Vec<EventNote>,
    /// How many daemons are connected with a key that works, if that could be seen.
    pub(crate) connected: Option<u32>,
    /// Keys that are left behind.
    pub(crate) orphans: Vec<KeyRecord>,
    /// Whether it waits until the Secret with today's token is kept.
    pub(crate) needs_secret: bool,
    /// The next effect. Without one the pass is over.
    pub(crate) step: Option<Step>,
    pub(crate) end: End,
}

//! What a decision about one CoderProvisioner is made from, and what it comes to. Data only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Condition, Note};
use aplomb_api::coder::{
    Binding, CoderProvisioner, CoderProvisionerStatus, KeyRecord, SecretKeyRef,
};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::access::{Access, Denied};
use crate::client::{CallError, Entitlements, Key, KeyDaemons, Organization};
use crate::server::{Fresh, Listed};

/// Everything that is known when a step is decided.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) object: Arc<CoderProvisioner>,
    pub(crate) status: CoderProvisionerStatus,
    pub(crate) now: Timestamp,
    pub(crate) instant: Instant,
    /// When this pass began.
    pub(crate) began: Instant,
    pub(crate) access: Result<Access, Denied>,
    /// The bindings of records whose token is still where it was.
    pub(crate) bound: BTreeSet<Place>,
    pub(crate) secret: SecretSeen,
    pub(crate) deployment: Option<DeploymentSeen>,
    pub(crate) seen: Seen,
    pub(crate) memory: Memory,
}

/// The Secret of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretSeen {
    /// There is none.
    Absent,
    /// There is one that another controls.
    Foreign(String),
    /// One that is ours, or nobody's.
    Ours {
        /// The name of the key it says it holds.
        key_name: Option<String>,
        /// Whether it holds a key at all, and the one that was put there.
        whole: bool,
    },
}

/// The Deployment of the daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeploymentSeen {
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    /// Whether no pod of an earlier template is left but those that end.
    pub(crate) rolled: bool,
}

/// Where keys are: an organisation of a server, as a token sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) fingerprint: String,
    pub(crate) organization: String,
}

impl Place {
    pub(crate) fn new(binding: &Binding, organization: &str) -> Self {
        Self {
            url: binding.server_url.clone(),
            fingerprint: binding.token_fingerprint.clone(),
            organization: organization.to_owned(),
        }
    }

    pub(crate) fn of(key: &KeyRecord) -> Self {
        Self::new(&key.binding, &key.organization_id)
    }
}

/// What came of a look in this pass.
pub(crate) type Looked<T> = Result<T, Hindrance>;

/// What this pass has seen of servers so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) entitlements: Option<Looked<Arc<Listed<Entitlements>>>>,
    pub(crate) organization: Option<Looked<Organization>>,
    pub(crate) keys: BTreeMap<Place, Looked<Arc<Listed<Vec<Key>>>>>,
    pub(crate) daemons: BTreeMap<Place, Looked<Arc<Listed<Vec<KeyDaemons>>>>>,
    /// Why the last effect on a server did not happen.
    pub(crate) hindered: Option<Hindrance>,
    /// The key that was made in this pass, and when by the server's clock.
    pub(crate) made: Option<(String, Timestamp)>,
    /// Keys that were deleted in this pass, by name.
    pub(crate) deleted: Vec<KeyRecord>,
    /// Whether the children are as they should be.
    pub(crate) applied: bool,
    pub(crate) drained: bool,
    pub(crate) finalized: bool,
    pub(crate) released: bool,
}

/// Why something could not be done at a server.
#[derive(Clone, Debug)]
pub(crate) enum Hindrance {
    /// Nothing was sent; it is our turn then. `limited`: because the server refused before.
    Later {
        until: Instant,
        limited: bool,
        endpoint: &'static str,
    },
    /// The server refused, now or a while ago.
    Refused(CallError),
}

/// What this process remembers of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// The name of a pending key that was certainly not asked for since it was written down.
    pub(crate) unasked: Option<String>,
    /// The plaintext of a key is in memory and not yet in the Secret: its name.
    pub(crate) in_hand: Option<String>,
}

/// One effect.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Finalize,
    Entitlements,
    Organization,
    Keys(KeyPlace, Fresh),
    Daemons(KeyPlace, Fresh),
    /// Asks the server for the pending key, and puts it into the Secret.
    Create(KeyRecord),
    /// Puts a key into the Secret that could not be put there before.
    Store(KeyRecord),
    /// Writes the children.
    Apply(Children),
    /// Stops the daemons.
    Drain,
    /// Deletes a key at its server.
    Delete(KeyRecord),
    /// Lets the object go.
    Release,
}

/// Where to look, and with whose token.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlace {
    pub(crate) place: Place,
    pub(crate) binding: Binding,
}

impl KeyPlace {
    pub(crate) fn new(binding: &Binding, organization: &str) -> Self {
        Self {
            place: Place::new(binding, organization),
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
    pub(crate) notes: Vec<Note>,
    /// How many daemons are connected with a key that works, if that could be seen.
    pub(crate) connected: Option<u32>,
    /// Keys that are left behind.
    pub(crate) orphans: Vec<KeyRecord>,
    /// The next effect. Without one the pass is over.
    pub(crate) step: Option<Step>,
    pub(crate) end: End,
}

/// How a pass ends that has no step left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Look again after this time. Nothing of it: the status must be written before what comes next.
    Again(Duration),
    /// Nothing helps but a change.
    Rejected { reason: String, message: String },
    /// The server does not answer.
    Unavailable(String),
}

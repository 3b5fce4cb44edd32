//! The API server: its objects, its clock and the resources it serves.
//!
//! Everything a request does is in `registry`; everything about URLs and headers is in `http`. This file
//! only holds them together and is the door for code in the same process.

mod builder;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use aplomb_apimachinery::clock::Clock;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_structured_merge::FieldManager;
use serde_json::Value;
use tokio::sync::watch;

use crate::admission::Registry;
use crate::auth::jwt::Signer;
use crate::call::{Call, Outcome};
use crate::mutation::{Mutation, Rule};
use crate::registry;
use crate::registry::field_management;
use crate::storage::{Hook, Key, Secrets, Store};

pub use builder::Builder;

/// Group, version and plural of a served resource.
pub type ResourceId = (String, String, String);

struct Inner {
    clock: Clock,
    store: Store,
    secrets: Secrets,
    breakage: Mutation,
    settings: Settings,
    /// PEM of the authority that the server's clients trust; empty while there is none.
    authority: watch::Sender<String>,
    /// Held from choosing something unique to writing it.
    writing: Mutex<()>,
    /// Held from charging a quota to storing what it was charged for.
    charging: Mutex<()>,
    resources: RwLock<BTreeMap<ResourceId, Arc<Resource>>>,
    /// Which edition of a definition each custom resource is served from.
    editions: Mutex<BTreeMap<GroupResource, String>>,
    /// Made when first needed; forgotten when a version is served or no longer served.
    field_managers: Mutex<BTreeMap<GroupResource, Arc<FieldManager>>>,
    admission: Registry,
    /// Made when the first token is asked for or shown.
    signer: OnceLock<Signer>,
}

#[derive(Clone, Debug)]
struct Settings {
    rbac: bool,
    checks_owners: bool,
    crd_delay: Duration,
}

/// A Kubernetes API server. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
    as_of: Option<u64>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer")
            .field("revision", &self.store().revision())
            .field("as_of", &self.as_of)
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Settings for a new server.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Carries out one call. What is answered is on disk, where there is one.
    ///
    /// # Errors
    /// What the server answers instead of the outcome.
    pub async fn call(&self, call: Call) -> Result<Outcome, ApiError> {
        let work = pin!(registry::handle(self, call));
        self.settled(work).await?
    }

    /// Does `work` and waits until everything it has read or written is on disk.
    ///
    /// # Errors
    /// 500: the disk did not take it.
    pub(crate) async fn settled<W: Future>(&self, work: Pin<&mut W>) -> Result<W::Output, ApiError> {
        let settled = self.store().settled(work).await;
        settled.map_err(|_| {
            let message = "the write was taken back: the data directory takes no writes now";
            ApiError::new(500, "InternalError", message)
        })
    }

    /// The keys and tokens of this cluster, kept with its objects.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    /// Where this server takes time and randomness from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The objects.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Whether requests are authorised by the stored roles and bindings.
    #[must_use]
    pub fn rbac(&self) -> bool {
        self.inner.settings.rbac
    }

    /// Who signs the tokens of service accounts.
    pub(crate) fn signer(&self) -> &Signer {
        let secrets = &self.inner.secrets;
        self.inner.signer.get_or_init(|| Signer::kept(secrets))
    }

    /// The admission policies in force.
    pub(crate) fn admission(&self) -> &Registry {
        &self.inner.admission
    }

    /// Whether changes of owner references are checked against what their author may do.
    #[must_use]
    pub fn checks_owners(&self) -> bool {
        self.inner.settings.checks_owners
    }

    /// How long a new CustomResourceDefinition takes to be served.
    #[must_use]
    pub fn crd_delay(&self) -> Duration {
        self.inner.settings.crd_delay
    }

    /// PEM of the authority that clients trust, now and whenever it changes; empty without one.
    #[must_use]
    pub fn authority(&self) -> watch::Receiver<String> {
        self.inner.authority.subscribe()
    }

    /// Sets the authority that clients trust, once there is a certificate to serve with.
    pub fn set_authority(&self, pem: &str) {
        self.inner.authority.send_if_modified(|authority| {
            let changes = authority != pem;
            pem.clone_into(authority);
            changes
        });
    }

    /// Everything served now, ordered by group, version and plural.
    #[must_use]
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        self.served().values().cloned().collect()
    }

    /// One served resource.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.served()
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
            .cloned()
    }

    /// Whether any resource of a group is served.
    #[must_use]
    pub fn serves_group(&self, group: &str) -> bool {
        let first = (group.to_owned(), String::new(), String::new());
        let served = self.served();
        let next = served.range(first..).next();
        next.is_some_and(|((found, ..), _)| found == group)
    }

    /// A served version of a resource, whichever it is.
    #[must_use]
    pub fn any_version(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.served()
            .values()
            .find(|r| r.group == group && r.plural == plural)
            .cloned()
    }

    /// The served resource of a kind.
    #[must_use]
    pub fn resource_of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.served()
            .values()
            .find(|r| r.kind == kind && r.api_version() == api_version)
            .cloned()
    }

    /// Starts serving a resource, or replaces how it is served.
    pub fn serve(&self, resource: Resource) {
        let id = (
            resource.group.clone(),
            resource.version.clone(),
            resource.plural.clone(),
        );
        // A watch of a resource may start at the moment from which it was served.
        self.store().open(&resource.storage);
        self.field_managers().remove(&resource.storage);
        let mut served = self.inner.resources.write().unwrap_or_else(PoisonError::into_inner);
        served.insert(id, Arc::new(resource));
    }

    /// Serves these versions of a resource and no others, unless `edition` of it is served already.
    /// Its watches end, as they do when the real server takes over a changed definition.
    pub(crate) fn serve_edition(&self, resource: &GroupResource, edition: &str, versions: Vec<Resource>) {
        let mut editions = self.inner.editions.lock().unwrap_or_else(PoisonError::into_inner);
        let before = editions.insert(resource.clone(), edition.to_owned());
        drop(editions);
        if before.as_deref() == Some(edition) {
            return;
        }
        let (group, plural) = (&resource.group, &resource.resource);
        let mut served = self.inner.resources.write().unwrap_or_else(PoisonError::into_inner);
        served.retain(|_, r| r.group != *group || r.plural != *plural);
        drop(served);
        for version in versions {
            self.serve(version);
        }
        if before.is_some() {
            self.store().reopen(resource);
        }
    }

    /// Stops serving every version of a resource.
    pub fn unserve(&self, group: &str, plural: &str) {
        let mut served = self.inner.resources.write().unwrap_or_else(PoisonError::into_inner);
        served.retain(|_, r| r.group != group || r.plural != plural);
        drop(served);
        let mut editions = self.inner.editions.lock().unwrap_or_else(PoisonError::into_inner);
        editions.remove(&GroupResource::new(group, plural));
        drop(editions);
        self.field_managers().clear();
    }

    /// Adds a hook that sees every later write, once it is on disk where there is one.
    pub fn on_commit(&self, hook: Hook) {
        self.store().on_commit(hook);
    }

    /// The stored object, past every fault and permission.
    #[must_use]
    pub fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let storage = self.any_version(group, plural)?.storage.clone();
        self.store().get(&Key {
            resource: storage,
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    /// Every stored object of a resource in key order, past every fault and permission.
    #[must_use]
    pub fn list(&self, group: &str, plural: &str) -> Vec<Arc<Value>> {
        let Some(resource) = self.any_version(group, plural) else {
            return Vec::new();
        };
        self.store().snapshot(&resource.storage).objects.into_values().collect()
    }

    /// The same server as a replica that lags behind: reads and watches end at `revision`, writes
    /// go to the present.
    #[must_use]
    pub fn stale(&self, revision: u64) -> Self {
        Self {
            inner: self.inner.clone(),
            as_of: Some(revision),
        }
    }

    /// The revision this handle reads at, if it lags behind.
    #[must_use]
    pub fn as_of(&self) -> Option<u64> {
        self.as_of
    }

    /// Whether a rule is broken on purpose (never in builds without `break-rules`).
    #[must_use]
    pub fn broken(&self, rule: Rule) -> bool {
        self.inner.breakage.is(rule)
    }

    /// Field management of a resource in all its versions.
    pub(crate) fn field_manager(&self, resource: &Resource) -> Arc<FieldManager> {
        let mut managers = self.field_managers();
        if let Some(manager) = managers.get(&resource.storage) {
            return manager.clone();
        }
        let served = self.resources();
        let mut versions: Vec<&Resource> = served
            .iter()
            .filter(|other| other.storage == resource.storage)
            .map(AsRef::as_ref)
            .collect();
        // Bodies of subresources have kinds that are served nowhere else.
        if versions.is_empty() {
            versions.push(resource);
        }
        let manager = Arc::new(field_management::field_manager(&versions));
        managers.insert(resource.storage.clone(), manager.clone());
        manager
    }

    fn field_managers(&self) -> MutexGuard<'_, BTreeMap<GroupResource, Arc<FieldManager>>> {
        self.inner.field_managers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps every other writer out until it is dropped.
    pub(crate) fn writing(&self) -> MutexGuard<'_, ()> {
        self.inner.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps quotas from being charged, or counted, by others until it is dropped. Taken before
    /// `writing`, never after.
    pub fn charging(&self) -> MutexGuard<'_, ()> {
        self.inner.charging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<ResourceId, Arc<Resource>>> {
        self.inner.resources.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one object of a resource.
pub fn key_of(resource: &GroupResource, namespace: Option<&str>, name: &str) -> Key {
    Key {
        resource: resource.clone(),
        namespace: namespace.unwrap_or_default().into(),
        name: name.into(),
    }
}

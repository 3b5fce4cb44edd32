//! A controller: a kind, a reconcile, the inputs it reads and a lens on each.
//!
//! Only declarations: nothing runs before the engine does.

mod caches;
mod conflict;
pub(crate) mod handlers;
pub(crate) mod reconcile;
mod retry;
pub(crate) mod workqueue;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::caches::ControllerCaches;
pub use self::conflict::ConflictPolicy;
use self::handlers::EventHandlers;
pub use self::retry::{BackoffPolicies, BackoffPolicy, Jitter};
use self::workqueue::WorkQueue;
use crate::action::Action;
use crate::cache::Cache;
use crate::context::Context;
use crate::error::Result;
use crate::informer::{Informer, InformerSet, Scope};
use crate::key::ObjectKey;
use crate::predicate::Predicate;
use crate::queue;
use crate::queue::{Lane, RunReason};
use crate::view::View;

/// A kind that a controller reconciles or writes: any typed resource, built in or custom.
pub trait Kind:
    Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Serialize + Clone + Send + Sync + 'static
{
}

impl<K> Kind for K where K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + Send + Sync + 'static {}

pub(crate) type ReconcileFn<K> = Arc<dyn Fn(Arc<K>, Context<K>) -> BoxFuture<'static, Result<Action>> + Send + Sync>;

type Input<K> = Box<dyn FnOnce(&mut EventHandlers<'_, K>) + Send>;

/// One kind, its reconcile, and what it reads.
pub struct Controller<K: Kind> {
    pub(crate) name: &'static str,
    pub(crate) reconcile: ReconcileFn<K>,
    pub(crate) predicate: Predicate<K>,
    pub(crate) scope: Scope,
    pub(crate) inputs: Vec<Input<K>>,
    pub(crate) options: ControllerOptions,
    pub(crate) without_leader_election: bool,
    pub(crate) without_status: bool,
    pub(crate) finalizers: Vec<&'static str>,
    pub(crate) on_deleted: DeleteHook,
}

/// Called with the key of every deleted object.
pub(crate) type DeleteHook = Arc<dyn Fn(&ObjectKey) + Send + Sync>;

impl<K: Kind> Controller<K> {
    /// A controller called `name`. The name is also its field manager and its label in metrics.
    pub fn new<F, Fut>(name: &'static str, reconcile: F) -> Self
    where
        F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        Self {
            name,
            reconcile: Arc::new(move |object, context| Box::pin(reconcile(object, context))),
            predicate: Predicate::spec_or_metadata_changed(),
            scope: Scope::default(),
            inputs: Vec::new(),
            options: ControllerOptions::default(),
            without_leader_election: false,
            without_status: false,
            finalizers: Vec::new(),
            on_deleted: Arc::new(|_| {}),
        }
    }

    /// Which changes of the reconciled object cause a run. Default: its spec, labels and annotations.
    #[must_use]
    pub fn predicate(mut self, lens: Predicate<K>) -> Self {
        self.predicate = lens;
        self
    }

    /// Which objects are reconciled. Default: all in the cluster.
    #[must_use]
    pub fn in_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Watches the children this controller writes. A change that `lens` passes runs their owner.
    #[must_use]
    pub fn owns<C: Kind>(self, lens: Predicate<C>) -> Self {
        self.owns_in(Scope::default(), lens)
    }

    /// Like [`Self::owns`], for a subset of the kind, such as Secrets of one type. The
    /// namespace is the controller's own.
    #[must_use]
    pub fn owns_in<C: Kind>(mut self, scope: Scope, lens: Predicate<C>) -> Self {
        self.inputs.push(Box::new(|wiring| wiring.watch_owned(scope, lens)));
        self
    }

    /// Watches an input. A change that `lens` passes runs the keys that `map` returns for it.
    #[must_use]
    pub fn watches<T: View>(
        self,
        scope: Scope,
        lens: Predicate<T>,
        map: impl Fn(&T, &Cache<K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.add_input(move |hub| hub.informer(scope), lens, map)
    }

    /// Watches an optional input: reconciles start although its cache may not be complete
    /// ([`Cache::freshness`] shows that), and its objects run their keys when they arrive.
    #[must_use]
    pub fn watches_optional<T: View>(
        self,
        scope: Scope,
        lens: Predicate<T>,
        map: impl Fn(&T, &Cache<K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.add_input(move |hub| hub.optional_informer(scope), lens, map)
    }

    fn add_input<T: View>(
        mut self,
        watch: impl FnOnce(&InformerSet) -> Informer<T> + Send + 'static,
        lens: Predicate<T>,
        map: impl Fn(&T, &Cache<K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.inputs.push(Box::new(move |wiring| {
            let watch = watch(wiring.informers);
            wiring.watch_input(&watch, lens, map);
        }));
        self
    }

    /// Adds an index to a kind that is watched in `scope`, for [`Cache::by_index`](crate::Cache::by_index).
    #[must_use]
    pub fn index<T: View>(
        mut self,
        scope: Scope,
        name: &'static str,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        let index = move |wiring: &mut EventHandlers<'_, K>| {
            let watch = wiring.informers.optional_informer::<T>(scope);
            watch.index(name, values);
        };
        self.inputs.push(Box::new(index));
        self
    }

    /// Runs on every replica, leading or not: for state that each replica reports about itself. Two replicas
    /// must not write the same fields, because no lease separates them. The status belongs to the leader, so
    /// such a controller does not write it.
    #[must_use]
    pub fn without_leader_election(mut self) -> Self {
        self.without_leader_election = true;
        self
    }

    /// Writes no status: for a kind without a status, or whose status another controller writes.
    #[must_use]
    pub fn without_status(mut self) -> Self {
        self.without_status = true;
        self
    }

    /// Declares a finalizer that this controller adds with [`Context::add_finalizer`] and removes with
    /// [`Context::remove_finalizer`]. An object that is being deleted is reconciled only while it has one;
    /// all others are left to the garbage collector. An undeclared finalizer counts if
    /// `managedFields` show that this controller has added it, which is lost in a restored backup.
    #[must_use]
    pub fn finalizer(mut self, name: &'static str) -> Self {
        self.finalizers.push(name);
        self
    }

    /// Lets `poke` run keys for events outside any watch; `source` names it among the reasons of a run.
    #[must_use]
    pub fn triggered_by(mut self, poke: &Trigger, source: &'static str) -> Self {
        let poke = poke.clone();
        self.inputs
            .push(Box::new(move |wiring| poke.connect(&wiring.queue, source)));
        self
    }

    /// Called after an object is deleted. Drop per-object state here. No reconcile runs for a deleted
    /// object: cleanup before a deletion needs a finalizer. Must not block.
    #[must_use]
    pub fn on_deleted(mut self, farewell: impl Fn(&ObjectKey) + Send + Sync + 'static) -> Self {
        self.on_deleted = Arc::new(farewell);
        self
    }

    /// The number of concurrent runs.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers.max(1);
        self
    }

    /// The time limit of one run.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = deadline;
        self
    }

    /// How often every object is reconciled when nothing changed.
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        self.options.resync = Some(every);
        self
    }

    /// Sets any other option.
    #[must_use]
    pub fn configure(mut self, set: impl FnOnce(&mut ControllerOptions)) -> Self {
        set(&mut self.options);
        self
    }
}

impl<K: Kind> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How a controller runs its keys.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The number of concurrent runs.
    pub workers: usize,
    /// A run that takes longer than this is assumed to wait, and another run may start, up to four times
    /// `workers` runs in total: objects that wait for a dead service do not stop the others. `None`: never.
    pub lend_after: Option<Duration>,
    /// The time limit of one run. Exceeding it counts as a failure of that key.
    pub deadline: Duration,
    /// How often each object is reconciled when nothing changed; spread over keys.
    pub resync: Option<Duration>,
    /// How keys wait after conflicts.
    pub conflict: ConflictPolicy,
    /// How failures of each class are retried.
    pub backoff: Arc<BackoffPolicies>,
    /// After this many failures in a row a key is quarantined with `Stalled=True`.
    pub quarantine_after: u32,
    /// How long a quarantine lasts unless the object is edited.
    pub quarantine: Duration,
    /// Lanes, their shares, age bounds and pace.
    pub queue: queue::QueueConfig,
}

/// The time for the status write after the reconcile has used up its own time.
const STATUS_WRITE_TIME: Duration = Duration::from_secs(5);

impl ControllerOptions {
    /// The maximum duration of a run, including its status write.
    pub(crate) fn bound(&self) -> Duration {
        self.deadline.saturating_add(STATUS_WRITE_TIME)
    }
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            lend_after: Some(Duration::from_secs(5)),
            deadline: Duration::from_secs(30),
            resync: None,
            conflict: ConflictPolicy::default(),
            backoff: Arc::default(),
            quarantine_after: 5,
            quarantine: Duration::from_secs(600),
            queue: queue::QueueConfig::default(),
        }
    }
}

/// Runs keys of the controller that it is connected to. Clones are equivalent.
#[derive(Clone, Default)]
pub struct Trigger(Arc<OnceLock<(Arc<WorkQueue>, &'static str)>>);

impl Trigger {
    /// Runs `key` as if one of its inputs had changed. Does nothing before the engine is assembled
    /// or for a key without an object.
    pub fn enqueue(&self, key: &ObjectKey) {
        if let Some((desk, source)) = self.0.get() {
            desk.push(key, Lane::Input, RunReason::Input(source));
        }
    }

    /// The first controller is kept: another controller needs its own trigger.
    pub(super) fn connect(&self, desk: &Arc<WorkQueue>, source: &'static str) {
        drop(self.0.set((desk.clone(), source)));
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poke")
    }
}

//! What a controller is: a kind, a reconcile, the inputs it reads and the lens on each.
//!
//! Declarations only: nothing runs before the engine does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::options::ControllerOptions;
use super::poke::Trigger;
use super::wiring::EventHandlers;
use crate::cache::Cache;
use crate::context::Context;
use crate::error::Result;
use crate::informer::{Informer, InformerSet};
use crate::key::ObjectKey;
use crate::predicate::Predicate;
use crate::action::Action;
use crate::view::View;
use crate::watch::Scope;

/// A kind that a controller reconciles or writes: any typed resource, built in or custom.
pub trait Kind:
    Resource<DynamicType = (), Scope: 'static>
    + DeserializeOwned
    + Serialize
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + Send + Sync + 'static
{
}

pub(crate) type ReconcileFn<K> =
    Arc<dyn Fn(Arc<K>, Context<K>) -> BoxFuture<'static, Result<Action>> + Send + Sync>;

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

/// What is told of objects that are gone.
pub(crate) type DeleteHook = Arc<dyn Fn(&ObjectKey) + Send + Sync>;

impl<K: Kind> Controller<K> {
    /// A controller called `name`, which is also its field manager and its label in metrics.
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

    /// What of the reconciled object matters; by default its spec, labels and annotations.
    #[must_use]
    pub fn predicate(mut self, lens: Predicate<K>) -> Self {
        self.predicate = lens;
        self
    }

    /// Which objects are reconciled; by default all of the cluster.
    #[must_use]
    pub fn in_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Watches the children this controller writes. A change that `lens` sees runs their owner.
    #[must_use]
    pub fn owns<C: Kind>(self, lens: Predicate<C>) -> Self {
        self.owns_in(Scope::default(), lens)
    }

    /// The same where not all objects of the kind need to be seen, such as Secrets of one type. The
    /// namespace is the controller's own.
    #[must_use]
    pub fn owns_in<C: Kind>(mut self, scope: Scope, lens: Predicate<C>) -> Self {
        self.inputs
            .push(Box::new(|wiring| wiring.watch_owned(scope, lens)));
        self
    }

    /// Watches an input. A change that `lens` sees runs the keys that `map` names for it.
    #[must_use]
    pub fn watches<T: View>(
        self,
        scope: Scope,
        lens: Predicate<T>,
        map: impl Fn(&T, &Cache<K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.add_input(move |hub| hub.informer(scope), lens, map)
    }

    /// Watches an input that the reconcile can do without: the work begins although its cache may
    /// not be complete, as [`Cache::freshness`] tells, and its objects run their keys when they come.
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

    /// Keeps an index of a kind that is watched in `scope`, for [`Cache::by`](crate::Cache::by).
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

    /// Runs on every replica, whether it leads or not: for what a replica says of itself. Two replicas
    /// must not write the same fields, since no lease keeps them apart; the status is the leader's, so
    /// what such a controller says of it is not written.
    #[must_use]
    pub fn without_leader_election(mut self) -> Self {
        self.without_leader_election = true;
        self
    }

    /// Writes no status: for a kind that has none, or whose status is another controller's.
    #[must_use]
    pub fn without_status(mut self) -> Self {
        self.without_status = true;
        self
    }

    /// Declares a finalizer that this controller adds with [`Context::finalizer`] and releases with
    /// [`Context::release`]. An object that is being deleted is reconciled only while it carries one;
    /// all others are left to the garbage collector. One that is not declared counts as long as
    /// `managedFields` say that this controller has added it, which a restored backup does not.
    #[must_use]
    pub fn finalizer(mut self, name: &'static str) -> Self {
        self.finalizers.push(name);
        self
    }

    /// Lets `poke` run keys for what no watch shows; `source` names it among the reasons of a run.
    #[must_use]
    pub fn triggered_by(mut self, poke: &Trigger, source: &'static str) -> Self {
        let poke = poke.clone();
        self.inputs
            .push(Box::new(move |wiring| poke.connect(&wiring.queue, source)));
        self
    }

    /// Told of every object that is gone, so that what is remembered of it can be let go. No pass runs
    /// for it: what must be done before an object goes needs a finalizer. Must not block.
    #[must_use]
    pub fn on_deleted(mut self, farewell: impl Fn(&ObjectKey) + Send + Sync + 'static) -> Self {
        self.on_deleted = Arc::new(farewell);
        self
    }

    /// How many keys run at once.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers.max(1);
        self
    }

    /// How long one run may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = deadline;
        self
    }

    /// Looks at every object this often although nothing changed.
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        self.options.resync = Some(every);
        self
    }

    /// Everything else that can be set.
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

//! One watch with its cache and its listeners.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::future::BoxFuture;
use kube::Resource;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::{AnyInformer, InformerStatus, Inner, wait_until_informer_synced};
use crate::cache::{Cache, CacheEvent, Freshness};
use crate::error::Result;
use crate::predicate::{Predicate, PredicateResult};
use crate::telemetry::{
    EventResult, EventSeen, ListenerPanicked, ObjectUnreadable, Telemetry, WatchBegan, WatchGauges,
};
use crate::view::View;
use crate::watch::{ReflectorTask, Scope, run_reflector};

type Listener<T> = Arc<dyn Fn(&CacheEvent<T>) + Send + Sync>;

/// One watch, its cache and its listeners. Clones share them.
pub struct Informer<T: View>(pub(super) Arc<InformerCore<T>>);

pub(super) struct InformerCore<T: View> {
    kind: Arc<str>,
    scope: Scope,
    cache: Cache<T>,
    /// Replaced as a whole, so that sending an event neither holds the lock nor copies the list.
    listeners: RwLock<Arc<Vec<Listener<T>>>>,
    trouble: Arc<Mutex<Option<String>>>,
    pub(super) required: AtomicBool,
    started: AtomicBool,
    telemetry: Telemetry,
}

impl<T: View> Informer<T> {
    /// The objects.
    #[must_use]
    pub fn cache(&self) -> Cache<T> {
        self.0.cache.clone()
    }

    /// The kind, such as `ConfigMap`.
    #[must_use]
    pub fn kind(&self) -> Arc<str> {
        self.0.kind.clone()
    }

    /// Adds an index for [`Cache::by`]. The first function under a name is kept.
    pub fn index(&self, name: &str, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) {
        self.0.cache.index(name, values);
    }

    /// Calls `listener` with every event, in order, from the watch's own task and without any lock,
    /// after the cache shows it. Earlier events are not repeated: call it before
    /// [`super::InformerSet::start`].
    pub fn listen(&self, listener: impl Fn(&CacheEvent<T>) + Send + Sync + 'static) {
        let listeners = self.0.listeners.write();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut listeners).push(Arc::new(listener));
    }

    /// The same through the lens of the controller that writes as `manager`: `listener` also gets
    /// the lens's result for each event, and each is counted.
    pub fn listen_filtered(
        &self,
        lens: Predicate<T>,
        manager: &str,
        listener: impl Fn(&CacheEvent<T>, PredicateResult) + Send + Sync + 'static,
    ) {
        let (kind, telemetry) = (self.0.kind.clone(), self.0.telemetry.clone());
        let manager: Arc<str> = manager.into();
        self.listen(move |event| {
            // A lens that panics lets the event pass.
            let sees = || lens.evaluate(event, &manager);
            let sight = catch_unwind(AssertUnwindSafe(sees)).unwrap_or(PredicateResult::Pass);
            let result = match event {
                CacheEvent::Unreadable { .. } => EventResult::Unreadable,
                _ => sight.into(),
            };
            telemetry.emit(EventSeen { kind: &kind, result });
            listener(event, sight);
        });
    }

    /// Waits until the cache is complete.
    ///
    /// # Errors
    /// It was not complete by `deadline`; the error contains the reason.
    pub async fn wait_until_synced(&self, deadline: Instant) -> Result<()> {
        wait_until_informer_synced(&*self.0, deadline).await
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> InformerStatus {
        self.0.state()
    }
}

impl<T: View> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: View> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.state()).finish()
    }
}

impl<T: View> InformerCore<T> {
    pub(super) fn new(scope: Scope, telemetry: &Telemetry) -> Arc<Self> {
        let core = Arc::new(Self {
            kind: Arc::from(&*T::Kind::kind(&())),
            scope,
            cache: Cache::new(),
            listeners: RwLock::default(),
            trouble: Arc::default(),
            required: AtomicBool::new(false),
            started: AtomicBool::new(false),
            telemetry: telemetry.clone(),
        });
        let (watched, since) = (Arc::downgrade(&core), Instant::now());
        let reading = move || {
            let core = watched.upgrade()?;
            let heard = core.cache.freshness().last_activity.unwrap_or(since);
            Some(WatchGauges {
                objects: core.cache.len() as u64,
                age: Instant::now().saturating_duration_since(heard),
            })
        };
        telemetry.emit(WatchBegan {
            kind: core.kind.clone(),
            reading: Box::new(reading),
        });
        core
    }

    fn notify(&self, event: &CacheEvent<T>) {
        if let CacheEvent::Unreadable { key, error, .. } = event {
            self.telemetry.emit(ObjectUnreadable {
                kind: &self.kind,
                key,
                error,
            });
        }
        let listeners = self.listeners.read();
        let listeners = listeners.unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners.iter() {
            // A caller's closure: a panic in it must not end the watch that all controllers share.
            if catch_unwind(AssertUnwindSafe(|| listener(event))).is_err() {
                self.telemetry.emit(ListenerPanicked {
                    kind: &self.kind,
                    key: &event.key(),
                });
            }
        }
    }
}

impl<T: View> AnyInformer for InformerCore<T> {
    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn name(&self) -> String {
        format!("watch of {} in {}", self.kind, self.scope)
    }

    fn state(&self) -> InformerStatus {
        let trouble = self.trouble.lock();
        InformerStatus {
            kind: self.kind.clone(),
            scope: self.scope.clone(),
            objects: self.cache.len(),
            required: self.required.load(Ordering::Relaxed),
            freshness: self.cache.freshness(),
            trouble: trouble.unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn watch_freshness(&self) -> Receiver<Freshness> {
        self.cache.watch_freshness()
    }

    fn start(self: Arc<Self>, inner: &Inner) -> Option<BoxFuture<'static, ()>> {
        if self.started.swap(true, Ordering::Relaxed) {
            return None;
        }
        let work = ReflectorTask {
            client: inner.client.clone(),
            kind: self.kind.clone(),
            scope: self.scope.clone(),
            timing: inner.timing.clone(),
            cache: self.cache.clone(),
            trouble: self.trouble.clone(),
            telemetry: inner.telemetry.clone(),
            notify: Box::new(move |event| self.notify(event)),
        };
        Some(Box::pin(run_reflector(work)))
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

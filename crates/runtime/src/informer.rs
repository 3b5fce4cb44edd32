//! All watches of a process: one per view and scope, shared by all controllers that read it.
//!
//! Each watch has its own task and backoff, so one that fails does not affect the others. The
//! hub starts them and reports their state; listeners interpret the events.

mod reflector;
mod task;
mod wire;

use std::any::{Any, TypeId};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::ClusterResourceScope;
use kube::Resource;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::task::{ReflectorTask, run_reflector};
use crate::cache::{Cache, CacheEvent, Freshness};
use crate::error::{Error, ErrorClass, Result};
use crate::predicate::{Predicate, PredicateResult};
use crate::tasks::{TaskHandle, Tasks};
use crate::telemetry::{
    EventResult, EventSeen, ListenerPanicked, ObjectUnreadable, Telemetry, WatchBegan, WatchGauges,
};
use crate::view::View;

/// The watches of a process. Clones share them.
#[derive(Clone)]
pub struct InformerSet(Arc<Inner>);

struct Inner {
    client: kube::Client,
    telemetry: Telemetry,
    timing: ReflectorTiming,
    /// In the order they were requested.
    informers: Mutex<Vec<Arc<dyn AnyInformer>>>,
}

/// The state of a watch, for people and health checks.
#[derive(Clone, Debug)]
pub struct InformerStatus {
    /// The kind.
    pub kind: Arc<str>,
    /// Which objects of it.
    pub scope: Scope,
    /// The number of objects.
    pub objects: usize,
    /// Whether controllers wait for it to be complete.
    pub required: bool,
    /// How current they are.
    pub freshness: Freshness,
    /// The last error, unless a success followed.
    pub trouble: Option<String>,
}

/// A watch of any view.
trait AnyInformer: Send + Sync {
    fn scope(&self) -> &Scope;
    fn name(&self) -> String;
    fn state(&self) -> InformerStatus;
    fn watch_freshness(&self) -> Receiver<Freshness>;
    /// The task of the watch; `None` if it was started before.
    fn start(self: Arc<Self>, inner: &Inner) -> Option<BoxFuture<'static, ()>>;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl InformerSet {
    /// A hub without watches, with default timing.
    #[must_use]
    pub fn new(client: kube::Client, telemetry: Telemetry) -> Self {
        Self::with_timing(client, telemetry, ReflectorTiming::default())
    }

    /// A hub without watches.
    #[must_use]
    pub fn with_timing(client: kube::Client, telemetry: Telemetry, timing: ReflectorTiming) -> Self {
        Self(Arc::new(Inner {
            client,
            telemetry,
            timing,
            informers: Mutex::default(),
        }))
    }

    /// The watch of `T` in `scope`, shared by all callers. It begins with
    /// [`Self::start`], and [`Self::wait_until_synced`] waits for it.
    #[must_use]
    pub fn informer<T: View>(&self, scope: Scope) -> Informer<T> {
        let watch = self.optional_informer(scope);
        watch.0.required.store(true, Ordering::Relaxed);
        watch
    }

    /// The same for optional inputs: [`Self::wait_until_synced`] does not wait for it unless another caller
    /// requires it.
    #[must_use]
    pub fn optional_informer<T: View>(&self, scope: Scope) -> Informer<T> {
        let scope = scope.for_kind::<T::Kind>();
        let mut watches = self.0.informers.lock();
        let same = watches
            .iter()
            .filter(|watch| *watch.scope() == scope)
            .find_map(|watch| watch.clone().as_any().downcast::<InformerCore<T>>().ok());
        let core = same.unwrap_or_else(|| {
            let core = InformerCore::new(scope, &self.0.telemetry);
            watches.push(core.clone());
            core
        });
        Informer(core)
    }

    /// Starts every watch that has not been started. They end when the returned handles are dropped.
    #[must_use]
    pub fn start(&self, tasks: &Tasks) -> Vec<TaskHandle<()>> {
        let watches = self.0.informers.lock().clone();
        let begin = |watch: Arc<dyn AnyInformer>| {
            let name = watch.name();
            Some(tasks.spawn_forever(&name, watch.start(&self.0)?))
        };
        watches.into_iter().filter_map(begin).collect()
    }

    /// Waits until every required cache is complete.
    ///
    /// # Errors
    /// One was not complete by `deadline`; the error contains its name and the reason.
    pub async fn wait_until_synced(&self, deadline: Instant) -> Result<()> {
        let watches = self.0.informers.lock().clone();
        for watch in watches.iter().filter(|watch| watch.state().required) {
            wait_until_informer_synced(&**watch, deadline).await?;
        }
        Ok(())
    }

    /// The state of every watch, in the order they were requested.
    #[must_use]
    pub fn states(&self) -> Vec<InformerStatus> {
        self.0.informers.lock().iter().map(|watch| watch.state()).collect()
    }
}

impl fmt::Debug for InformerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.states()).finish()
    }
}

async fn wait_until_informer_synced(watch: &dyn AnyInformer, deadline: Instant) -> Result<()> {
    let mut freshness = watch.watch_freshness();
    let synced = freshness.wait_for(|freshness| freshness.synced);
    if timeout_at(deadline, synced).await.is_ok() {
        return Ok(());
    }
    let state = watch.state();
    let why = state.trouble.as_deref().unwrap_or("the list did not finish in time");
    let what = format!("{} is not ready: {why}", watch.name());
    Err(Error::new(ErrorClass::Unavailable, what))
}

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

    /// Adds an index for [`Cache::by_index`]. The first function under a name is kept.
    pub fn index(&self, name: &str, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) {
        self.0.cache.index(name, values);
    }

    /// Calls `listener` with every event, in order, from the watch's own task and without any lock,
    /// after the cache shows it. Earlier events are not repeated: call it before
    /// [`crate::informer::InformerSet::start`].
    pub fn listen(&self, listener: impl Fn(&CacheEvent<T>) + Send + Sync + 'static) {
        let mut listeners = self.0.listeners.write();
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
        let listeners = self.listeners.read().clone();
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
            trouble: trouble.clone(),
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

/// Which objects of a kind are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The namespace; all of them if `None`, and for kinds that have none.
    pub namespace: Option<String>,
    /// A label selector, as `kubectl --selector` takes it.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
}

impl Scope {
    /// The scope that applies to `K`: a kind without namespaces is watched whole.
    pub(crate) fn for_kind<K: Resource>(self) -> Self
    where
        K::Scope: 'static,
    {
        let cluster = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        Self {
            namespace: self.namespace.filter(|_| !cluster),
            ..self
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "namespace {namespace}")?,
            None => f.write_str("all namespaces")?,
        }
        for selector in [&self.labels, &self.fields].into_iter().flatten() {
            write!(f, ", {selector}")?;
        }
        Ok(())
    }
}

/// The timeouts of a watch.
#[derive(Clone, Debug)]
pub struct ReflectorTiming {
    /// A stream without an event, a bookmark or its end for this long is dead. Must be longer than
    /// `lifetime`.
    pub silence_timeout: Duration,
    /// How long the server may take to open a watch.
    pub open_timeout: Duration,
    /// How long it may take to send a page of a list.
    pub page_timeout: Duration,
    /// The first and the longest wait after failures.
    pub backoff: (Duration, Duration),
    /// How long, at least and at most, the server should keep a watch open. A server sends
    /// no bookmark while nothing happens, so only an end at the requested time distinguishes a quiet watch from a
    /// dead one: a minute, where others use five.
    pub lifetime: (Duration, Duration),
    /// Objects per page of a list.
    pub page_size: u32,
}

impl Default for ReflectorTiming {
    fn default() -> Self {
        Self {
            silence_timeout: Duration::from_secs(75),
            open_timeout: Duration::from_secs(30),
            page_timeout: Duration::from_secs(60),
            backoff: (Duration::from_millis(800), Duration::from_secs(30)),
            lifetime: (Duration::from_secs(50), Duration::from_secs(60)),
            page_size: 500,
        }
    }
}

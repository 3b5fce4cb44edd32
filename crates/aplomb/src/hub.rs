//! Every watch of the process: one per view and scope, however many controllers read it.
//!
//! Each watch has a task and a backoff of its own, so one that fails costs the others nothing. The
//! hub starts them and tells how they are; what an event means is for its listeners to say.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::future::BoxFuture;
use kube::Resource;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout_at};

use crate::cache::{Cache, Event, Freshness};
use crate::error::{Class, Error, Result};
use crate::lens::{Lens, Sight};
use crate::tasks::{Task, Tasks};
use crate::telemetry::{EventResult, EventSeen, ObjectUnreadable, Reading, Telemetry, WatchBegan};
use crate::view::View;
use crate::watch::{Drive, Scope, Timing, drive};

/// The watches of a process. Clones share them.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    client: kube::Client,
    telemetry: Telemetry,
    timing: Timing,
    /// In the order they were asked for.
    watches: Mutex<Vec<Arc<dyn Source>>>,
}

/// How a watch is, for people and health checks.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// The kind.
    pub kind: Arc<str>,
    /// Which objects of it.
    pub scope: Scope,
    /// How many there are.
    pub objects: usize,
    /// Whether the work waits for it to be complete.
    pub required: bool,
    /// How current they are.
    pub freshness: Freshness,
    /// What went wrong last, if nothing went right since.
    pub trouble: Option<String>,
}

/// A watch of any view.
trait Source: Send + Sync {
    fn scope(&self) -> &Scope;
    fn name(&self) -> String;
    fn state(&self) -> WatchState;
    fn follow(&self) -> Receiver<Freshness>;
    /// The work of the watch, the first time it is asked for.
    fn begin(self: Arc<Self>, inner: &Inner) -> Option<BoxFuture<'static, ()>>;
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl Hub {
    /// A hub without watches, with the usual patience.
    #[must_use]
    pub fn new(client: kube::Client, telemetry: Telemetry) -> Self {
        Self::with_timing(client, telemetry, Timing::default())
    }

    /// A hub without watches.
    #[must_use]
    pub fn with_timing(client: kube::Client, telemetry: Telemetry, timing: Timing) -> Self {
        Self(Arc::new(Inner {
            client,
            telemetry,
            timing,
            watches: Mutex::default(),
        }))
    }

    /// The watch of `T` in `scope`, shared by all who ask for the same. It begins with
    /// [`Self::start`], and [`Self::ready`] waits for it.
    #[must_use]
    pub fn watch<T: View>(&self, scope: Scope) -> Watch<T> {
        let watch = self.watch_if_possible(scope);
        watch.0.required.store(true, Ordering::Relaxed);
        watch
    }

    /// The same for those who can do without: [`Self::ready`] does not wait for it unless somebody
    /// else requires it.
    #[must_use]
    pub fn watch_if_possible<T: View>(&self, scope: Scope) -> Watch<T> {
        let mut watches = self.lock();
        let same = watches
            .iter()
            .filter(|watch| *watch.scope() == scope)
            .find_map(|watch| watch.clone().any().downcast::<Core<T>>().ok());
        let core = same.unwrap_or_else(|| {
            let core = Core::new(scope, &self.0.telemetry);
            watches.push(core.clone());
            core
        });
        Watch(core)
    }

    /// Starts every watch that has not been started. They end when what is returned is dropped.
    #[must_use]
    pub fn start(&self, tasks: &Tasks) -> Vec<Task<()>> {
        let watches = self.lock().clone();
        let begin = |watch: Arc<dyn Source>| {
            let name = watch.name();
            Some(tasks.keep(&name, watch.begin(&self.0)?))
        };
        watches.into_iter().filter_map(begin).collect()
    }

    /// Waits until every required cache is complete.
    ///
    /// # Errors
    /// One was not by `deadline`; the error names it and says why.
    pub async fn ready(&self, deadline: Instant) -> Result<()> {
        let watches = self.lock().clone();
        for watch in watches.iter().filter(|watch| watch.state().required) {
            ready(&**watch, deadline).await?;
        }
        Ok(())
    }

    /// How every watch is, in the order they were asked for.
    #[must_use]
    pub fn watches(&self) -> Vec<WatchState> {
        self.lock().iter().map(|watch| watch.state()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<dyn Source>>> {
        let watches = self.0.watches.lock();
        watches.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.watches()).finish()
    }
}

async fn ready(watch: &dyn Source, deadline: Instant) -> Result<()> {
    let mut freshness = watch.follow();
    let synced = freshness.wait_for(|freshness| freshness.synced);
    if timeout_at(deadline, synced).await.is_ok() {
        return Ok(());
    }
    let state = watch.state();
    let why = state
        .trouble
        .as_deref()
        .unwrap_or("the list takes too long");
    let what = format!("the {} is not ready: {why}", watch.name());
    Err(Error::new(Class::Unavailable, what))
}

type Listener<T> = Arc<dyn Fn(&Event<T>) + Send + Sync>;

/// One watch, its cache and its listeners. Clones share them.
pub struct Watch<T: View>(Arc<Core<T>>);

struct Core<T: View> {
    kind: Arc<str>,
    scope: Scope,
    cache: Cache<T>,
    /// Replaced as a whole, so that telling an event neither holds the lock nor copies the list.
    listeners: RwLock<Arc<Vec<Listener<T>>>>,
    trouble: Arc<Mutex<Option<String>>>,
    required: AtomicBool,
    began: AtomicBool,
    telemetry: Telemetry,
}

impl<T: View> Watch<T> {
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

    /// Keeps an index that [`Cache::by`] finds objects in. The first function under a name stays.
    pub fn index(&self, name: &str, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) {
        self.0.cache.index(name, values);
    }

    /// Calls `listener` with every event, in order, from the watch's own task and without any lock,
    /// after the cache shows it. Nothing is repeated for those who come late: listen before
    /// [`Hub::start`].
    pub fn listen(&self, listener: impl Fn(&Event<T>) + Send + Sync + 'static) {
        let listeners = self.0.listeners.write();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut listeners).push(Arc::new(listener));
    }

    /// The same through the lens of the controller that writes as `manager`: `listener` is also told
    /// what the lens makes of each event, and each is counted.
    pub fn observe(
        &self,
        lens: Lens<T>,
        manager: &str,
        listener: impl Fn(&Event<T>, Sight) + Send + Sync + 'static,
    ) {
        let (kind, telemetry) = (self.0.kind.clone(), self.0.telemetry.clone());
        let manager: Arc<str> = manager.into();
        self.listen(move |event| {
            let sight = lens.sees(event, &manager);
            let result = match event {
                Event::Unreadable { .. } => EventResult::Unreadable,
                _ => sight.into(),
            };
            telemetry.emit(EventSeen {
                kind: &kind,
                result,
            });
            listener(event, sight);
        });
    }

    /// Waits until the cache is complete.
    ///
    /// # Errors
    /// It was not by `deadline`; the error says why.
    pub async fn ready(&self, deadline: Instant) -> Result<()> {
        ready(&*self.0, deadline).await
    }

    /// How it is.
    #[must_use]
    pub fn state(&self) -> WatchState {
        self.0.state()
    }
}

impl<T: View> Clone for Watch<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: View> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.state()).finish()
    }
}

impl<T: View> Core<T> {
    fn new(scope: Scope, telemetry: &Telemetry) -> Arc<Self> {
        let core = Arc::new(Self {
            kind: Arc::from(&*T::Kind::kind(&())),
            scope,
            cache: Cache::new(),
            listeners: RwLock::default(),
            trouble: Arc::default(),
            required: AtomicBool::new(false),
            began: AtomicBool::new(false),
            telemetry: telemetry.clone(),
        });
        let (watched, since) = (Arc::downgrade(&core), Instant::now());
        let reading = move || {
            let core = watched.upgrade()?;
            let heard = core.cache.freshness().last_activity.unwrap_or(since);
            Some(Reading {
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

    fn tell(&self, event: &Event<T>) {
        if let Event::Unreadable { key, error } = event {
            self.telemetry.emit(ObjectUnreadable {
                kind: &self.kind,
                key,
                error,
            });
        }
        let listeners = self.listeners.read();
        let listeners = listeners.unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners.iter() {
            listener(event);
        }
    }
}

impl<T: View> Source for Core<T> {
    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn name(&self) -> String {
        format!("watch of {} in {}", self.kind, self.scope)
    }

    fn state(&self) -> WatchState {
        let trouble = self.trouble.lock();
        WatchState {
            kind: self.kind.clone(),
            scope: self.scope.clone(),
            objects: self.cache.len(),
            required: self.required.load(Ordering::Relaxed),
            freshness: self.cache.freshness(),
            trouble: trouble.unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn follow(&self) -> Receiver<Freshness> {
        self.cache.follow_freshness()
    }

    fn begin(self: Arc<Self>, inner: &Inner) -> Option<BoxFuture<'static, ()>> {
        if self.began.swap(true, Ordering::Relaxed) {
            return None;
        }
        let work = Drive {
            client: inner.client.clone(),
            kind: self.kind.clone(),
            scope: self.scope.clone(),
            timing: inner.timing.clone(),
            cache: self.cache.clone(),
            trouble: self.trouble.clone(),
            telemetry: inner.telemetry.clone(),
            tell: Box::new(move |event| self.tell(event)),
        };
        Some(Box::pin(drive(work)))
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

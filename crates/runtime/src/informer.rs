//! All watches of a process: one per view and scope, shared by all controllers that read it.
//!
//! Each watch has its own task and backoff, so one that fails does not affect the others. The
//! hub starts them and reports their state; listeners interpret the events.

mod shared;

use std::any::Any;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout_at};

pub use self::shared::Informer;
use self::shared::InformerCore;
use crate::cache::Freshness;
use crate::error::{Error, ErrorClass, Result};
use crate::tasks::{TaskHandle, Tasks};
use crate::telemetry::Telemetry;
use crate::view::View;
use crate::watch::{ReflectorTiming, Scope};

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
    /// [`Self::start`], and [`Self::ready`] waits for it.
    #[must_use]
    pub fn informer<T: View>(&self, scope: Scope) -> Informer<T> {
        let watch = self.optional_informer(scope);
        watch.0.required.store(true, Ordering::Relaxed);
        watch
    }

    /// The same for optional inputs: [`Self::ready`] does not wait for it unless another caller
    /// requires it.
    #[must_use]
    pub fn optional_informer<T: View>(&self, scope: Scope) -> Informer<T> {
        let scope = scope.for_kind::<T::Kind>();
        let mut watches = self.lock();
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
        let watches = self.lock().clone();
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
        let watches = self.lock().clone();
        for watch in watches.iter().filter(|watch| watch.state().required) {
            wait_until_informer_synced(&**watch, deadline).await?;
        }
        Ok(())
    }

    /// The state of every watch, in the order they were requested.
    #[must_use]
    pub fn states(&self) -> Vec<InformerStatus> {
        self.lock().iter().map(|watch| watch.state()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<dyn AnyInformer>>> {
        let watches = self.0.informers.lock();
        watches.unwrap_or_else(PoisonError::into_inner)
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

//! Every watch of the process: one per view and scope, however many controllers read it.
//!
//! Each watch has a task and a backoff of its own, so one that fails costs the others nothing. The
//! hub starts them and tells how they are; what an event means is for its listeners to say.

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
    /// In the order they were asked for.
    informers: Mutex<Vec<Arc<dyn AnyInformer>>>,
}

/// How a watch is, for people and health checks.
#[derive(Clone, Debug)]
pub struct InformerStatus {
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
trait AnyInformer: Send + Sync {
    fn scope(&self) -> &Scope;
    fn name(&self) -> String;
    fn state(&self) -> InformerStatus;
    fn watch_freshness(&self) -> Receiver<Freshness>;
    /// The work of the watch, the first time it is asked for.
    fn start(self: Arc<Self>, inner: &Inner) -> Option<BoxFuture<'static, ()>>;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl InformerSet {
    /// A hub without watches, with the usual patience.
    #[must_use]
    pub fn new(client: kube::Client, telemetry: Telemetry) -> Self {
        Self::with_timing(client, telemetry, ReflectorTiming::default())
    }

    /// A hub without watches.
    #[must_use]
    pub fn with_timing(
        client: kube::Client,
        telemetry: Telemetry,
        timing: ReflectorTiming,
    ) -> Self {
        Self(Arc::new(Inner {
            client,
            telemetry,
            timing,
            informers: Mutex::default(),
        }))
    }

    /// The watch of `T` in `scope`, shared by all who ask for the same. It begins with
    /// [`Self::start`], and [`Self::ready`] waits for it.
    #[must_use]
    pub fn informer<T: View>(&self, scope: Scope) -> Informer<T> {
        let watch = self.optional_informer(scope);
        watch.0.required.store(true, Ordering::Relaxed);
        watch
    }

    /// The same for those who can do without: [`Self::ready`] does not wait for it unless somebody
    /// else requires it.
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

    /// Starts every watch that has not been started. They end when what is returned is dropped.
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
    /// One was not by `deadline`; the error names it and says why.
    pub async fn wait_until_synced(&self, deadline: Instant) -> Result<()> {
        let watches = self.lock().clone();
        for watch in watches.iter().filter(|watch| watch.state().required) {
            wait_until_informer_synced(&**watch, deadline).await?;
        }
        Ok(())
    }

    /// How every watch is, in the order they were asked for.
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
    let why = state
        .trouble
        .as_deref()
        .unwrap_or("the list takes too long");
    let what = format!("the {} is not ready: {why}", watch.name());
    Err(Error::new(ErrorClass::Unavailable, what))
}

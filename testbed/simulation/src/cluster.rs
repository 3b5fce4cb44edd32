//! What a scenario holds in its hands: the server, clients with their faults, components, oracles.

mod crash_gate;
mod freeze;
mod process;
mod recorder;
mod write_log;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb_apiserver::call::User;
use aplomb_apiserver::http::Service;
use aplomb_apiserver::server::ApiServer;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use serde_json::Value;
use tokio::time::sleep;
use tower::retry::RetryLayer;
use tower::util::{BoxCloneService, MapRequestLayer};
use tower::{BoxError, ServiceBuilder};

use self::crash_gate::ProcessLife;
use self::recorder::{Activity, Recorder};
use crate::faults::{Faults, Outages};
use crate::trace::Trace;

pub use crash_gate::{Crash, CrashPoint};
pub use process::{Component, Process, ReplicaClock};
use write_log::masked_state;
pub use write_log::{Counts, WriteLog};

/// A cluster in a world. Cheap to clone; clones are the same cluster.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    seed: u64,
    service: Service,
    trace: Trace,
    outages: Outages,
    faults: Mutex<BTreeMap<String, Faults>>,
    requests: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    activity: Activity,
    writes: WriteLog,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("seed", &self.inner.seed)
            .finish_non_exhaustive()
    }
}

/// There was something to do until the end of the time allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("still busy after {0:?}")]
pub struct StillRunning(pub Duration);

impl Cluster {
    pub(super) fn new(seed: u64, server: ApiServer, trace: Trace, memory: usize) -> Self {
        let writes = WriteLog::follow(&server, memory);
        let inner = Inner {
            seed,
            service: Service::new(server),
            trace,
            outages: Outages::new(),
            faults: Mutex::default(),
            requests: Mutex::default(),
            activity: Activity::default(),
            writes,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The seed of the world.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// The API server itself, past every fault and permission.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        self.inner.service.server()
    }

    /// The trace of the run.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.inner.trace
    }

    /// Restarts of the API server, as all clients see them.
    #[must_use]
    pub fn outages(&self) -> &Outages {
        &self.inner.outages
    }

    /// Every write so far.
    #[must_use]
    pub fn writes(&self) -> &WriteLog {
        &self.inner.writes
    }

    /// Every object, named `resource.group/namespace/name`, without versions, identities, times of
    /// creation and field managers: what two runs that should end alike are compared by.
    #[must_use]
    pub fn state(&self) -> BTreeMap<String, Value> {
        masked_state(self.server())
    }

    /// The faults the client called `identity` meets; the same ones each time.
    #[must_use]
    pub fn faults(&self, identity: &str) -> Faults {
        let mut faults = self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Faults::new(identity, &self.inner.trace).with_outages(&self.inner.outages);
        faults.entry(identity.to_owned()).or_insert_with(new).clone()
    }

    /// A client that may do anything, built as kube builds one from a configuration: with the
    /// retries that clients have in production.
    #[must_use]
    pub fn client(&self, identity: &str) -> kube::Client {
        self.client_as(identity, &master(identity))
    }

    /// The same for a user with the rights that the stored roles give.
    #[must_use]
    pub fn client_as(&self, identity: &str, user: &User) -> kube::Client {
        let service = self.connect(identity, user, None);
        with_retries(service)
    }

    /// A client that may do anything and retries nothing by itself, for a program that brings its
    /// own idea of when to try again.
    #[must_use]
    pub fn plain_client(&self, identity: &str) -> kube::Client {
        kube::Client::new(self.connect(identity, &master(identity), None), "default")
    }

    fn connect(&self, identity: &str, user: &User, life: Option<ProcessLife>) -> Connection {
        let agent = HeaderValue::from_str(identity).unwrap_or(HeaderValue::from_static("client"));
        let named = MapRequestLayer::new(move |mut request: Request<kube::client::Body>| {
            request.headers_mut().entry(USER_AGENT).or_insert_with(|| agent.clone());
            request
        });
        let recorder = Recorder {
            identity: identity.into(),
            trace: self.inner.trace.clone(),
            numbers: self.numbers(identity),
            activity: self.inner.activity.clone(),
            life,
        };
        let service = ServiceBuilder::new()
            .layer(named)
            .layer(recorder)
            .layer(self.faults(identity))
            .service(self.inner.service.authenticated(user));
        BoxCloneService::new(service)
    }

    /// Requests of one identity are numbered over all its clients.
    fn numbers(&self, identity: &str) -> Arc<AtomicU64> {
        let mut requests = self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.entry(identity.to_owned()).or_default().clone()
    }

    pub(super) fn activity(&self) -> &Activity {
        &self.inner.activity
    }

    /// Starts a component: `main` is called for each of its lives, with a client and a clock of
    /// its own. After a crash it is started again, as a kubelet would.
    pub fn start<M, F>(&self, name: &str, main: M) -> Component
    where
        M: Fn(Process) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Component::start(self, name, main)
    }

    /// Waits until nothing has been sent and no effect has happened for `idle`, and returns when
    /// the last one was. Virtual time passes only when no task can run, so then there is nothing
    /// to run and no timer within `idle` that led to anything.
    ///
    /// # Errors
    /// It was not quiet for that long within `limit`.
    pub async fn quiesce(&self, idle: Duration, limit: Duration) -> Result<Duration, StillRunning> {
        let begin = self.trace().elapsed();
        while self.trace().elapsed() - begin < limit {
            let (before, at) = (self.inner.activity.load(Ordering::Relaxed), self.trace().elapsed());
            sleep(idle).await;
            if self.inner.activity.load(Ordering::Relaxed) == before {
                return Ok(at);
            }
        }
        Err(StillRunning(limit))
    }
}

/// What stands between a client and the server: its name, the trace and its faults.
pub(super) type Connection = BoxCloneService<Request<Body>, Response<crate::faults::Body>, BoxError>;

/// A client on top of `connection`, with the retries that clients have in production.
pub(super) fn with_retries(connection: Connection) -> kube::Client {
    let retries = RetryLayer::new(RetryPolicy::server_retry());
    let service = ServiceBuilder::new().layer(retries).service(connection);
    kube::Client::new(service, "default")
}

/// Somebody who may do anything.
pub(super) fn master(name: &str) -> User {
    User {
        name: name.to_owned(),
        uid: String::new(),
        groups: vec!["system:masters".to_owned()],
        ..User::default()
    }
}

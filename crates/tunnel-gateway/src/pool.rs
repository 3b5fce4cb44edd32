//! Idle connections to origins. Each belongs to one tunnel and one origin, so that a tenant's origin cannot
//! affect the connections of another.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::dial::OriginStream;
use crate::limits::ListenerLimits;
use crate::serve::upload::{UploadProgress, UpstreamSender};
use crate::table::OriginTarget;

/// The tunnel and the origin of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolKey {
    /// UID of the tunnel.
    pub(crate) tunnel: String,
    pub(crate) origin: Arc<OriginTarget>,
}

/// The pool of idle connections. They are closed when the pool is dropped, or after the idle timeout.
pub(crate) struct ConnectionPool {
    shared: Arc<Shared>,
    _reaper: TaskHandle<()>,
}

struct Shared {
    tasks: Tasks,
    idle_for: Duration,
    most: usize,
    header_bytes: usize,
    idle: Mutex<BTreeMap<PoolKey, Vec<Waiting>>>,
    /// Notified when the first connection becomes idle.
    first: Notify,
}

struct Waiting {
    connection: Connection,
    since: Instant,
}

/// A connection and the task that drives it.
struct Connection {
    sender: SendRequest<UpstreamSender>,
    _driver: TaskHandle<()>,
}

/// A connection in use. Dropping it closes the connection, which cancels the request at the origin.
pub(crate) struct PooledConnection {
    pool: Weak<Shared>,
    key: PoolKey,
    connection: Connection,
    progress: Option<Arc<UploadProgress>>,
}

impl ConnectionPool {
    pub(crate) fn new(tasks: &Tasks, limits: &ListenerLimits) -> Self {
        let shared = Arc::new(Shared {
            tasks: tasks.clone(),
            idle_for: limits.idle_connection,
            most: limits.idle_connections_per_origin,
            header_bytes: limits.header_bytes,
            idle: Mutex::default(),
            first: Notify::new(),
        });
        let reaper = tasks.start(reap(Arc::downgrade(&shared)));
        Self {
            shared,
            _reaper: reaper,
        }
    }

    /// An idle connection: the most recently used one, because the origin is least likely to have closed it.
    pub(crate) fn take(&self, key: &PoolKey) -> Option<PooledConnection> {
        let mut idle = self.shared.idle();
        let waiting = idle.get_mut(key)?;
        // A connection that is not ready yet may still be reading the end of its last response.
        waiting.retain(|it| !it.connection.sender.is_closed());
        let last = waiting
            .iter()
            .rposition(|it| it.connection.sender.is_ready());
        let taken = last.map(|index| waiting.remove(index));
        if waiting.is_empty() {
            idle.remove(key);
        }
        drop(idle);
        let connection = taken?.connection;
        Some(self.lease(key.clone(), connection))
    }

    /// Opens a connection over `stream`.
    pub(crate) async fn connect(
        &self,
        key: PoolKey,
        stream: Box<dyn OriginStream>,
    ) -> Result<PooledConnection, hyper::Error> {
        let (sender, driver) = Builder::new()
            .max_header_size(self.shared.header_bytes)
            .handshake(TokioIo::new(stream))
            .await?;
        let driver = self.shared.tasks.start(async move {
            // The request that waits for a response gets the error.
            let _ = driver.with_upgrades().await;
        });
        let connection = Connection {
            sender,
            _driver: driver,
        };
        Ok(self.lease(key, connection))
    }

    fn lease(&self, key: PoolKey, connection: Connection) -> PooledConnection {
        PooledConnection {
            pool: Arc::downgrade(&self.shared),
            key,
            connection,
            progress: None,
        }
    }
}

impl PooledConnection {
    pub(crate) fn sender(&mut self) -> &mut SendRequest<UpstreamSender> {
        &mut self.connection.sender
    }

    /// Sets the request that is sent over it.
    pub(crate) fn carries(&mut self, progress: Arc<UploadProgress>) {
        self.progress = Some(progress);
    }

    /// Returns the connection after a response. It is only reused if the request was sent completely.
    pub(crate) fn give_back(self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let sent = self.progress.is_none_or(|it| it.finished());
        if !sent || self.connection.sender.is_closed() {
            return;
        }
        let mut idle = pool.idle();
        if idle.is_empty() {
            pool.first.notify_one();
        }
        let waiting = idle.entry(self.key).or_default();
        waiting.push(Waiting {
            connection: self.connection,
            since: Instant::now(),
        });
        let too_many = (waiting.len() > pool.most).then(|| waiting.remove(0));
        drop(idle);
        drop(too_many);
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, BTreeMap<PoolKey, Vec<Waiting>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes connections that are expired or were closed by the origin, and returns when the next one
    /// expires.
    fn sweep(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut idle = self.idle();
        let mut gone = Vec::new();
        for waiting in idle.values_mut() {
            let over =
                |it: &Waiting| it.since + self.idle_for <= now || it.connection.sender.is_closed();
            gone.extend(waiting.extract_if(.., |it| over(it)));
        }
        idle.retain(|_, waiting| !waiting.is_empty());
        let oldest = idle.values().filter_map(|it| it.first());
        let next = oldest.map(|it| it.since + self.idle_for).min();
        drop(idle);
        drop(gone);
        next
    }
}

/// Closes expired connections; sleeps while none are idle.
async fn reap(pool: Weak<Shared>) {
    loop {
        let Some(shared) = pool.upgrade() else { return };
        match shared.sweep() {
            Some(next) => {
                drop(shared);
                tokio::time::sleep_until(next).await;
            }
            None => shared.first.notified().await,
        }
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl fmt::Debug for PooledConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

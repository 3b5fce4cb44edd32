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

use crate::limits::ListenerLimits;
use crate::origin::OriginStream;
use crate::proxy::request_body::{UploadProgress, UpstreamSender};
use crate::routing::OriginTarget;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolKey {
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
    idle_timeout: Duration,
    max_idle: usize,
    header_bytes: usize,
    idle: Mutex<BTreeMap<PoolKey, Vec<IdleConnection>>>,
    /// Notified when the first connection becomes idle.
    not_empty: Notify,
}

struct IdleConnection {
    connection: Connection,
    since: Instant,
}

struct Connection {
    sender: SendRequest<UpstreamSender>,
    _driver: TaskHandle<()>,
}

/// A connection in use. Dropping it closes the connection, which cancels the request at the origin.
pub(crate) struct PooledConnection {
    pool: Weak<Shared>,
    key: PoolKey,
    connection: Connection,
    upload: Option<Arc<UploadProgress>>,
}

impl ConnectionPool {
    pub(crate) fn new(tasks: &Tasks, limits: &ListenerLimits) -> Self {
        let shared = Arc::new(Shared {
            tasks: tasks.clone(),
            idle_timeout: limits.idle_connection,
            max_idle: limits.idle_connections_per_origin,
            header_bytes: limits.header_bytes,
            idle: Mutex::default(),
            not_empty: Notify::new(),
        });
        let reaper = tasks.spawn(run_reaper(Arc::downgrade(&shared)));
        Self {
            shared,
            _reaper: reaper,
        }
    }

    /// An idle connection: the most recently used one, because the origin is least likely to have closed it.
    pub(crate) fn take_idle(&self, key: &PoolKey) -> Option<PooledConnection> {
        let mut idle = self.shared.lock_idle();
        let waiting = idle.get_mut(key)?;
        // A connection that is not ready yet may still be reading the end of its last response.
        waiting.retain(|it| !it.connection.sender.is_closed());
        let last = waiting.iter().rposition(|it| it.connection.sender.is_ready());
        let taken = last.map(|index| waiting.remove(index));
        if waiting.is_empty() {
            idle.remove(key);
        }
        drop(idle);
        let connection = taken?.connection;
        Some(self.new_lease(key.clone(), connection))
    }

    pub(crate) async fn connect(
        &self,
        key: PoolKey,
        stream: Box<dyn OriginStream>,
    ) -> Result<PooledConnection, hyper::Error> {
        let (sender, driver) = Builder::new()
            .max_header_size(self.shared.header_bytes)
            .handshake(TokioIo::new(stream))
            .await?;
        let driver = self.shared.tasks.spawn(async move {
            // The request that waits for a response gets the error.
            let _ = driver.with_upgrades().await;
        });
        let connection = Connection {
            sender,
            _driver: driver,
        };
        Ok(self.new_lease(key, connection))
    }

    fn new_lease(&self, key: PoolKey, connection: Connection) -> PooledConnection {
        PooledConnection {
            pool: Arc::downgrade(&self.shared),
            key,
            connection,
            upload: None,
        }
    }
}

impl PooledConnection {
    pub(crate) fn sender(&mut self) -> &mut SendRequest<UpstreamSender> {
        &mut self.connection.sender
    }

    pub(crate) fn set_upload(&mut self, progress: Arc<UploadProgress>) {
        self.upload = Some(progress);
    }

    /// Returns the connection after a response. It is only reused if the request was sent completely.
    pub(crate) fn release(self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let sent = self.upload.is_none_or(|it| it.is_finished());
        if !sent || self.connection.sender.is_closed() {
            return;
        }
        let mut idle = pool.lock_idle();
        if idle.is_empty() {
            pool.not_empty.notify_one();
        }
        let waiting = idle.entry(self.key).or_default();
        waiting.push(IdleConnection {
            connection: self.connection,
            since: Instant::now(),
        });
        let too_many = (waiting.len() > pool.max_idle).then(|| waiting.remove(0));
        drop(idle);
        drop(too_many);
    }
}

impl Shared {
    fn lock_idle(&self) -> MutexGuard<'_, BTreeMap<PoolKey, Vec<IdleConnection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes connections that are expired or were closed by the origin, and returns when the next one expires.
    fn close_expired(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut idle = self.lock_idle();
        let mut gone = Vec::new();
        for waiting in idle.values_mut() {
            let over = |it: &IdleConnection| it.since + self.idle_timeout <= now || it.connection.sender.is_closed();
            gone.extend(waiting.extract_if(.., |it| over(it)));
        }
        idle.retain(|_, waiting| !waiting.is_empty());
        let oldest = idle.values().filter_map(|it| it.first());
        let next = oldest.map(|it| it.since + self.idle_timeout).min();
        drop(idle);
        drop(gone);
        next
    }
}

/// Closes expired connections; sleeps while none are idle.
async fn run_reaper(pool: Weak<Shared>) {
    loop {
        let Some(shared) = pool.upgrade() else { return };
        match shared.close_expired() {
            Some(next) => {
                drop(shared);
                tokio::time::sleep_until(next).await;
            }
            None => shared.not_empty.notified().await,
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
        f.debug_struct("Lease").field("key", &self.key).finish_non_exhaustive()
    }
}

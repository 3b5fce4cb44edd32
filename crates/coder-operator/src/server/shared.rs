//! Looks that many share: a caller without recent enough data joins the read in flight, or starts
//! one.

use std::sync::Arc;
use std::time::Duration;

use aplomb::leadership::fence::Fence;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::look::{Joined, ReadCache};
use super::{Caller, MaxAge, ServerClient, Timestamped, waiters};
use crate::client::{CallError, CallErrorClass, CoderCall, CoderEndpoint};
use crate::object::Object;
use crate::pushback::Pushback;

/// How long a read may take at least, whichever caller started it: others share it.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Terms that outlive the caller: a read continues for others.
pub(super) struct OwnedCaller {
    object: Object,
    bypass: bool,
    fence: Fence,
    deadline: Instant,
}

impl OwnedCaller {
    fn new(asker: &Caller<'_>) -> Self {
        Self {
            object: asker.object.clone(),
            bypass: asker.bypass,
            fence: asker.fence.clone(),
            deadline: asker.deadline.max(Instant::now() + READ_TIMEOUT),
        }
    }

    /// What the status says of the gate was heeded before.
    pub(super) fn caller(&self) -> Caller<'_> {
        Caller {
            object: &self.object,
            bypass: self.bypass,
            fence: &self.fence,
            deadline: self.deadline,
            limited: None,
        }
    }
}

/// A read that is begun.
pub(super) type ReadFuture<T> = BoxFuture<'static, Result<Timestamped<T>, Pushback>>;

impl ServerClient {
    /// What is at `path`: known and new enough, or read for all who want it now.
    pub(super) async fn read_cached<T: Clone + Send + Sync + 'static>(
        &self,
        look: &ReadCache<T>,
        asker: &Caller<'_>,
        (endpoint, path): (CoderEndpoint, &str),
        fresh: MaxAge,
        begin: impl Fn(OwnedCaller) -> ReadFuture<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let entered = look.sequence();
        loop {
            if let Some(known) = look.cached(path, fresh, Instant::now()) {
                return Ok(known);
            }
            self.check_backoff(asker)?;
            asker.check_deadline()?;
            self.0.common.waiters.remove(&self.queue_entry(path), asker.object);
            let joined = look.join_read(path, asker.object, |number| {
                let reading = begin(OwnedCaller::new(asker));
                let (look, path) = (look.clone(), path.to_owned());
                async move {
                    let read = reading.await;
                    look.complete_read(&path, number, read)
                }
                .boxed()
            });
            let number = joined.sequence;
            let listed = self.join_read(asker, (endpoint, path), joined).await?;
            // One that was begun before may have missed what this one asks about.
            let new = number > entered || matches!(fresh, MaxAge::Within(_));
            if new || fresh.accepts(listed.requested_at, Instant::now()) {
                return Ok(listed);
            }
        }
    }

    /// Waits for a read, and takes what comes of it as one's own.
    async fn join_read<T: Clone + Send + Sync + 'static>(
        &self,
        asker: &Caller<'_>,
        (endpoint, path): (CoderEndpoint, &str),
        joined: Joined<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let Joined {
            caller: pilot, read, ..
        } = joined;
        let place = self.queue_entry(path);
        let read = timeout_at(asker.call_deadline(), read).await;
        let read = read.unwrap_or_else(|_| Err(CallError::timed_out(endpoint).into()));
        let own = pilot == *asker.object;
        match &read {
            Err(Pushback::Later { .. }) => self.0.common.waiters.add(&place, asker.object),
            Err(Pushback::Refused(error)) if !own && error.class == CallErrorClass::Limited => {
                self.record_refusal(asker.object);
            }
            Err(Pushback::Refused(error)) if error.status.is_none() => {}
            Ok(_) | Err(Pushback::Refused(_)) if !own => self.record_success(asker.object),
            Ok(_) | Err(Pushback::Refused(_)) => {}
        }
        read
    }

    /// What one call says, for all.
    pub(super) async fn read_value<T: Clone + Send + Sync + 'static>(
        &self,
        look: &ReadCache<T>,
        asker: &Caller<'_>,
        fresh: MaxAge,
        ask: CoderCall<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let (path, ask) = (ask.path.clone(), Arc::new(ask));
        let at = (ask.endpoint, path.as_str());
        let begin = |owned: OwnedCaller| {
            let (server, ask) = (self.clone(), ask.clone());
            async move { server.read_shared(&owned.caller(), &ask).await }.boxed()
        };
        self.read_cached(look, asker, at, fresh, begin).await
    }

    /// Makes the call of a look, in the look's own place in the queue, and tells those who were sent away.
    pub(super) async fn read_shared<T>(
        &self,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
    ) -> Result<Timestamped<T>, Pushback> {
        let purse = self.limits_for(asker).await?;
        let place = self.queue_entry(&ask.path);
        let read = self.send_counted(&purse, asker, ask, &place).await;
        let failure = read.as_ref().err().map(Pushback::class);
        if failure.is_none_or(|class| class == Some(CallErrorClass::Missing)) {
            self.0.common.waiters.notify_waiters(&place);
        }
        read
    }

    /// What stands in a queue for all who look at `path`.
    pub(super) fn queue_entry(&self, path: &str) -> Object {
        waiters::queue_entry(&self.0.fingerprint, path)
    }
}

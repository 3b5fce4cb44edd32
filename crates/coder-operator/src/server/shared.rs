//! Looks that many share: a caller without recent enough data joins the read in flight, or starts
//! one.

use std::sync::Arc;
use std::time::Duration;

use aplomb::fence::Fence;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::look::{Joined, ReadCache};
use super::{Caller, MaxAge, ServerClient, Timestamped, waiters};
use crate::client::{CallError, CallErrorClass, CoderCall, CoderEndpoint};
use crate::object::Object;
use crate::pushback::Pushback;

/// How long a read may take at least, whichever caller started it: others share it.
const LOOK: Duration = Duration::from_secs(15);

/// Terms that outlive the caller: a read continues for others.
pub(super) struct OwnedCaller {
    who: Object,
    bypass: bool,
    fence: Fence,
    deadline: Instant,
}

impl OwnedCaller {
    fn new(asker: &Caller<'_>) -> Self {
        Self {
            who: asker.who.clone(),
            bypass: asker.bypass,
            fence: asker.fence.clone(),
            deadline: asker.deadline.max(Instant::now() + LOOK),
        }
    }

    /// What the status says of the gate was heeded before.
    pub(super) fn asker(&self) -> Caller<'_> {
        Caller {
            who: &self.who,
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
    pub(super) async fn look<T: Clone + Send + Sync + 'static>(
        &self,
        look: &ReadCache<T>,
        asker: &Caller<'_>,
        (endpoint, path): (CoderEndpoint, &str),
        fresh: MaxAge,
        begin: impl Fn(OwnedCaller) -> ReadFuture<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let entered = look.number();
        loop {
            if let Some(known) = look.known(path, fresh, Instant::now()) {
                return Ok(known);
            }
            self.pass(asker)?;
            asker.in_time()?;
            self.0.common.waiters.remove(&self.place(path), asker.who);
            let joined = look.join(path, asker.who, |number| {
                let reading = begin(OwnedCaller::new(asker));
                let (look, path) = (look.clone(), path.to_owned());
                async move {
                    let read = reading.await;
                    look.land(&path, number, read)
                }
                .boxed()
            });
            let number = joined.number;
            let listed = self.landed(asker, (endpoint, path), joined).await?;
            // One that was begun before may have missed what this one asks about.
            let new = number > entered || matches!(fresh, MaxAge::Within(_));
            if new || fresh.holds(listed.at, Instant::now()) {
                return Ok(listed);
            }
        }
    }

    /// Waits for a read, and takes what comes of it as one's own.
    async fn landed<T: Clone + Send + Sync + 'static>(
        &self,
        asker: &Caller<'_>,
        (endpoint, path): (CoderEndpoint, &str),
        joined: Joined<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let Joined { pilot, read, .. } = joined;
        let place = self.place(path);
        let read = timeout_at(asker.last(), read).await;
        let read = read.unwrap_or_else(|_| Err(CallError::late(endpoint).into()));
        let own = pilot == *asker.who;
        match &read {
            Err(Pushback::Later { .. }) => self.0.common.waiters.add(&place, asker.who),
            Err(Pushback::Refused(error)) if !own && error.class == CallErrorClass::Limited => {
                self.refused(asker.who);
            }
            Err(Pushback::Refused(error)) if error.status.is_none() => {}
            Ok(_) | Err(Pushback::Refused(_)) if !own => self.answered(asker.who),
            Ok(_) | Err(Pushback::Refused(_)) => {}
        }
        read
    }

    /// What one call says, for all.
    pub(super) async fn read<T: Clone + Send + Sync + 'static>(
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
            async move { server.fly(&owned.asker(), &ask).await }.boxed()
        };
        self.look(look, asker, at, fresh, begin).await
    }

    /// Makes the call of a look, in the look's own place in the queue, and tells those who were sent away.
    pub(super) async fn fly<T>(
        &self,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
    ) -> Result<Timestamped<T>, Pushback> {
        let purse = self.purse(asker).await?;
        let place = self.place(&ask.path);
        let read = self.spend(&purse, asker, ask, &place).await;
        let failure = read.as_ref().err().map(Pushback::class);
        if failure.is_none_or(|class| class == Some(CallErrorClass::Missing)) {
            self.0.common.waiters.tell(&place);
        }
        read
    }

    /// What stands in a queue for all who look at `path`.
    pub(super) fn place(&self, path: &str) -> Object {
        waiters::place(&self.0.fingerprint, path)
    }
}

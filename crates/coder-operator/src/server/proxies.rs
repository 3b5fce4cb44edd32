//! What can be asked of a server about workspace proxies.
//!
//! A write that has an answer tells what there is now; one without makes what is known doubtful.

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;

use super::shared::OwnedCaller;
use super::{Caller, MaxAge, ServerClient, Timestamped};
use crate::client::{CallError, CallErrorClass, CoderCall, CreatedProxy, ProxyDisplay, WorkspaceProxy};
use crate::pushback::Pushback;

type Asked<T> = Result<T, Pushback>;

impl ServerClient {
    /// The workspace proxy of a name or id, or that there is none: one that was deleted is none.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn proxy(
        &self,
        asker: &Caller<'_>,
        name: &str,
        fresh: MaxAge,
    ) -> Asked<Arc<Timestamped<Option<WorkspaceProxy>>>> {
        let ask = Arc::new(CoderCall::proxy(name)?);
        let at = (ask.endpoint, ask.path.as_str());
        let begin = |owned: OwnedCaller| {
            let (server, ask) = (self.clone(), ask.clone());
            async move { server.read_proxy(&owned.caller(), &ask).await }.boxed()
        };
        let table = &self.0.reads.proxies;
        self.read_cached(table, asker, at, fresh, begin).await
    }

    async fn read_proxy(
        &self,
        asker: &Caller<'_>,
        ask: &CoderCall<WorkspaceProxy>,
    ) -> Asked<Timestamped<Option<WorkspaceProxy>>> {
        let (at, by_server) = (Instant::now(), self.0.now());
        match self.read_shared(asker, ask).await {
            Ok(read) => Ok(read.map(|it| Some(it).filter(|it| !it.deleted))),
            Err(pushback) if pushback.class() == Some(CallErrorClass::Missing) => Ok(Timestamped {
                requested_at: at,
                server_time: by_server,
                value: None,
            }),
            Err(pushback) => Err(pushback),
        }
    }

    /// Whether a workspace proxy has this name in any case: names are looked up in their exact case, and
    /// are unique in any.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn is_name_taken(&self, asker: &Caller<'_>, name: &str) -> Asked<bool> {
        let all = self.call(asker, &CoderCall::proxies()).await?;
        let same = |it: &WorkspaceProxy| !it.deleted && it.name.eq_ignore_ascii_case(name);
        Ok(all.value.iter().any(same))
    }

    /// Registers a workspace proxy. Without an answer it may have been registered.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn create_proxy(&self, asker: &Caller<'_>, looks: &ProxyDisplay) -> Asked<CreatedProxy> {
        let ask = CoderCall::create_proxy(looks);
        let made = self.write(asker, &ask, || self.invalidate_proxies()).await;
        self.record_proxy(made)
    }

    /// Changes a workspace proxy, and its token if it is to be a new one. The server changes one that was
    /// deleted too, and then refuses the token that it made: such a one is [`CallErrorClass::Missing`].
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn patch_proxy(
        &self,
        asker: &Caller<'_>,
        id: &str,
        looks: &ProxyDisplay,
        regenerate: bool,
    ) -> Asked<CreatedProxy> {
        let ask = CoderCall::patch_proxy(id, looks, regenerate)?;
        let changed = self.write(asker, &ask, || self.invalidate_proxies()).await?;
        if changed.value.proxy.deleted {
            self.invalidate_proxies();
            return Err(CallError::deleted(ask.endpoint).into());
        }
        self.record_proxy(Ok(changed))
    }

    /// Takes a workspace proxy back.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn delete_proxy(&self, asker: &Caller<'_>, id: &str) -> Asked<()> {
        let ask = CoderCall::delete_proxy(id)?;
        let gone = self.write(asker, &ask, || self.invalidate_proxies()).await;
        if gone.is_ok() {
            self.invalidate_proxies();
        }
        gone.map(|_| ())
    }

    fn record_proxy(&self, written: Asked<Timestamped<CreatedProxy>>) -> Asked<CreatedProxy> {
        let written = written?;
        self.invalidate_proxies();
        let looks = &self.0.reads.proxies;
        let known = Arc::new(Timestamped {
            requested_at: written.requested_at,
            server_time: written.server_time,
            value: Some(written.value.proxy.clone()),
        });
        for name in [&written.value.proxy.id, &written.value.proxy.name] {
            if let Ok(ask) = CoderCall::proxy(name) {
                looks.insert(&ask.path, known.clone());
            }
        }
        Ok(written.value)
    }
    /// All of them: the one that was written may have been looked for by another name.
    fn invalidate_proxies(&self) {
        self.0.reads.proxies.invalidate_where(|_, _| true);
    }
}

//! What can be asked of a server about organizations, licenses and keys.
//!
//! A write that has an answer is put into what is known, so that it need not be read again; one
//! without makes what is known doubtful.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::reads::OwnedCaller;
use super::{Caller, MaxAge, ServerClient, Timestamped};
use crate::blocked::Pushback;
use crate::client::{
    CallError, CallErrorClass, CoderCall, CreatedKey, CreatedProxy, Entitlements, Organization, ProvisionerKey,
    ProvisionerKeyDaemons, ProxyDisplay, WorkspaceProxy,
};

/// An organization's id does not change; that it is gone is noticed when it is used.
const ORGANIZATION_TTL: Duration = Duration::from_secs(3600);

type Asked<T> = Result<T, Pushback>;
type Look<T> = Asked<Arc<Timestamped<T>>>;

impl ServerClient {
    pub(crate) fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// The organization of a name. It is remembered until a call with its id says that there is none.
    pub(crate) async fn organization(&self, asker: &Caller<'_>, name: &str) -> Asked<Organization> {
        let ask = CoderCall::organization(name)?;
        let table = &self.0.reads.organizations;
        let fresh = MaxAge::Within(ORGANIZATION_TTL);
        let read = self.read_value(table, asker, fresh, ask).await?;
        Ok(read.value.clone())
    }

    /// The keys of an organization. One that was made with [`Self::create_key`] since the list was read has
    /// no id yet.
    pub(crate) async fn keys(
        &self,
        asker: &Caller<'_>,
        organization: &str,
        fresh: MaxAge,
    ) -> Look<Vec<ProvisionerKey>> {
        let ask = CoderCall::keys(organization)?;
        let table = &self.0.reads.keys;
        let read = self.read_value(table, asker, fresh, ask).await;
        self.check_organization(organization, read)
    }

    /// The keys of an organization with the daemons that are connected with each.
    pub(crate) async fn daemons(
        &self,
        asker: &Caller<'_>,
        organization: &str,
        fresh: MaxAge,
    ) -> Look<Vec<ProvisionerKeyDaemons>> {
        let ask = CoderCall::daemons(organization)?;
        let table = &self.0.reads.daemons;
        let read = self.read_value(table, asker, fresh, ask).await;
        self.check_organization(organization, read)
    }

    /// What the license allows. A server without any such thing says [`CallErrorClass::Missing`].
    pub(crate) async fn entitlements(&self, asker: &Caller<'_>, fresh: MaxAge) -> Look<Entitlements> {
        let table = &self.0.reads.entitlements;
        self.read_value(table, asker, fresh, CoderCall::entitlements()).await
    }

    /// Makes a key. Without an answer it may have been made.
    pub(crate) async fn create_key(
        &self,
        asker: &Caller<'_>,
        organization: &str,
        name: &str,
        tags: &BTreeMap<String, String>,
    ) -> Asked<CreatedKey> {
        let ask = CoderCall::create_key(organization, name, tags)?;
        let doubt = || self.invalidate_keys(organization);
        let made = self.write(asker, &ask, doubt).await;
        let made = self.check_organization(organization, made)?;
        let key = ProvisionerKey {
            id: String::new(),
            created_at: made.server_time,
            name: name.to_lowercase(),
            tags: Some(tags.clone()),
        };
        self.0.reads.keys.edit(&ask.path, move |keys| {
            if keys.iter().all(|known| known.name != key.name) {
                keys.push(key.clone());
            }
        });
        Ok(made.value)
    }

    /// Deletes a key. [`CallErrorClass::Missing`] may also mean that this token does not see the organization.
    pub(crate) async fn delete_key(&self, asker: &Caller<'_>, organization: &str, name: &str) -> Asked<()> {
        let ask = CoderCall::delete_key(organization, name)?;
        let doubt = || self.invalidate_keys(organization);
        let gone = self.write(asker, &ask, doubt).await;
        self.check_organization(organization, gone)?;
        let (looks, name) = (&self.0.reads, name.to_lowercase());
        let other = name.clone();
        let keys = CoderCall::keys(organization)?.path;
        looks.keys.edit(&keys, move |keys| keys.retain(|key| key.name != name));
        let daemons = CoderCall::daemons(organization)?.path;
        looks.daemons.edit(&daemons, move |keys| {
            keys.retain(|known| known.key.name != other);
        });
        Ok(())
    }

    /// Forgets an organization that a call with its id did not find.
    fn check_organization<T>(&self, organization: &str, answer: Asked<T>) -> Asked<T> {
        if answer.as_ref().err().and_then(Pushback::class) == Some(CallErrorClass::Missing) {
            let looks = &self.0.reads.organizations;
            looks.invalidate_where(|_, known| known.is_some_and(|known| known.id == organization));
        }
        answer
    }

    fn invalidate_keys(&self, organization: &str) {
        let looks = &self.0.reads;
        if let (Ok(keys), Ok(daemons)) = (CoderCall::keys(organization), CoderCall::daemons(organization)) {
            looks.keys.invalidate(&keys.path);
            looks.daemons.invalidate(&daemons.path);
        }
    }

    /// The workspace proxy of a name or id, or that there is none: one that was deleted is none.
    pub(crate) async fn proxy(
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
    pub(crate) async fn is_name_taken(&self, asker: &Caller<'_>, name: &str) -> Asked<bool> {
        let all = self.call(asker, &CoderCall::proxies()).await?;
        let same = |it: &WorkspaceProxy| !it.deleted && it.name.eq_ignore_ascii_case(name);
        Ok(all.value.iter().any(same))
    }

    /// Registers a workspace proxy. Without an answer it may have been registered.
    pub(crate) async fn create_proxy(&self, asker: &Caller<'_>, looks: &ProxyDisplay) -> Asked<CreatedProxy> {
        let ask = CoderCall::create_proxy(looks);
        let made = self.write(asker, &ask, || self.invalidate_proxies()).await;
        self.record_proxy(made)
    }

    /// Changes a workspace proxy, and its token if it is to be a new one. The server changes one that was
    /// deleted too, and then refuses the token that it made: such a one is [`CallErrorClass::Missing`].
    pub(crate) async fn patch_proxy(
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
    pub(crate) async fn delete_proxy(&self, asker: &Caller<'_>, id: &str) -> Asked<()> {
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

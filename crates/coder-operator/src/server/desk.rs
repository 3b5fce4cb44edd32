//! What is known of one server: by all who call it, and by those who call it with one token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aplomb_http_client::ApiToken;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Common;
use super::look::ReadCache;
use super::skew::ClockSkew;
use crate::budget::Account;
use crate::bypass::BypassMemory;
use crate::client::{
    CoderClient, Entitlements, Organization, ProvisionerKey, ProvisionerKeyDaemons, ServerUrl, WorkspaceProxy,
};
use crate::identity::{IdentityCache, LimitOwner};
use crate::object::Object;

/// How many calls that are not counted may be under way with one account: a server without a limit
/// must not be flooded.
const MAX_UNCOUNTED: usize = 8;

/// One server, for all its callers.
pub(super) struct ServerState {
    pub(super) base: ServerUrl,
    state: Mutex<SiteState>,
}

#[derive(Default)]
struct SiteState {
    skew: ClockSkew,
    limits: BTreeMap<LimitOwner, IdentityLimits>,
    /// Whether it counts by user, and when that was learned.
    per_user: Option<(bool, Instant)>,
}

/// What one identity spends from.
#[derive(Clone)]
pub(super) struct IdentityLimits {
    pub(super) account: Account,
    pub(super) uncounted_slots: Arc<Semaphore>,
}

/// One server, called with one token.
pub(super) struct TokenClient {
    pub(super) common: Arc<Common>,
    pub(super) site: Arc<ServerState>,
    pub(super) client: CoderClient,
    /// What tells the token from others without being one.
    pub(super) fingerprint: String,
    pub(super) identity: Mutex<IdentityCache>,
    pub(super) bypass: Mutex<BypassMemory>,
    pub(super) reads: ReadCaches,
}

/// What many want to know.
#[derive(Default)]
pub(super) struct ReadCaches {
    pub(super) identity: ReadCache<LimitOwner>,
    pub(super) organizations: ReadCache<Organization>,
    pub(super) keys: ReadCache<Vec<ProvisionerKey>>,
    pub(super) daemons: ReadCache<Vec<ProvisionerKeyDaemons>>,
    pub(super) entitlements: ReadCache<Entitlements>,
    pub(super) proxies: ReadCache<Option<WorkspaceProxy>>,
}

impl TokenClient {
    pub(super) fn new(common: Arc<Common>, site: Arc<ServerState>, client: CoderClient, token: &ApiToken) -> Self {
        let digest = token.digest();
        let hex = digest.iter().take(6).map(|byte| format!("{byte:02x}"));
        let fingerprint: String = hex.collect();
        Self {
            common,
            site,
            client,
            identity: Mutex::new(IdentityCache::new(fingerprint.clone())),
            fingerprint,
            bypass: Mutex::default(),
            reads: ReadCaches::default(),
        }
    }

    pub(super) fn with_identity<T>(&self, act: impl FnOnce(&mut IdentityCache) -> T) -> T {
        act(&mut self.identity.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn with_bypass<T>(&self, act: impl FnOnce(&mut BypassMemory) -> T) -> T {
        act(&mut self.bypass.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server's clock.
    pub(super) fn now(&self) -> Timestamp {
        let here = self.common.settings.clock.now();
        self.site.with_skew(|skew| skew.to_server_time(here))
    }

    /// The limits of an identity, created on first use.
    pub(super) fn limits(&self, whose: &LimitOwner) -> IdentityLimits {
        self.site.with_state(|state| {
            if let Some(purse) = state.limits.get(whose) {
                return purse.clone();
            }
            let name = format!("coder/{}/{}", self.site.base.name(), whose.name());
            let waiters = self.common.waiters.clone();
            let tell = move |who: &Object| waiters.notify_waiters(who);
            let account = Account::new(&name, Arc::new(tell));
            self.common.settings.limiters.add(account.clone());
            let purse = IdentityLimits {
                account,
                uncounted_slots: Arc::new(Semaphore::new(MAX_UNCOUNTED)),
            };
            state.limits.insert(whose.clone(), purse.clone());
            purse
        })
    }
}

impl ServerState {
    pub(super) fn new(base: ServerUrl) -> Self {
        Self {
            base,
            state: Mutex::default(),
        }
    }

    pub(super) fn with_skew<T>(&self, act: impl FnOnce(&mut ClockSkew) -> T) -> T {
        self.with_state(|state| act(&mut state.skew))
    }

    /// Whether it counts by user, if that was learned since `oldest`.
    pub(super) fn per_user(&self, oldest: Option<Instant>) -> Option<bool> {
        let known = self.with_state(|state| state.per_user);
        known
            .filter(|(_, at)| oldest.is_none_or(|oldest| *at > oldest))
            .map(|(by_user, _)| by_user)
    }

    pub(super) fn set_per_user(&self, by_user: bool, now: Instant) {
        self.with_state(|state| state.per_user = Some((by_user, now)));
    }

    pub(super) fn remove(&self, who: &Object) {
        let purses: Vec<_> = self.with_state(|state| state.limits.values().cloned().collect());
        purses.iter().for_each(|purse| purse.account.remove(who));
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut SiteState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

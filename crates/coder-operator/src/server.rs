//! Servers, and every call that is made to them.
//!
//! A call passes the gate of its object, gets its turn from the account of its identity, checks the
//! right to act right before it is sent, and reports its result to all of them. Callers do not
//! block: a call that has to be made later says so. What many want to know is read once.

mod api;
mod bypass;
mod client;
mod identity;
mod reads;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::ratelimit::LimiterRegistry;
use aplomb::{Clock, ObjectRef};
use aplomb_api::coder::RateLimited;
use aplomb_http_client::{ApiToken, BoxError, Transport};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::blocked::Pushback;
use crate::client::{CoderClient, ServerUrl};
use crate::gate::ObjectBackoffs;
use crate::telemetry::CoderMetrics;
use client::{ServerState, TokenClient};
use reads::CallWaiters;

pub(crate) use bypass::BypassState;

/// How long the state of an unused server is kept.
const UNUSED_TTL: Duration = Duration::from_secs(2 * 3600);
/// How long before the deadline of its caller a call has to be over.
const DEADLINE_MARGIN: Duration = Duration::from_millis(500);

/// Opens a way to servers; the authorities in a bundle, as PEM, are trusted besides those of the machine.
pub(crate) type CoderConnectFn = Arc<dyn Fn(Option<&str>) -> Result<Transport, BoxError> + Send + Sync>;
/// Called with an object whose turn has come. It must not call back.
pub(crate) type Tell = Arc<dyn Fn(&ObjectRef) + Send + Sync>;

/// What servers are reached with.
#[derive(Clone)]
pub(crate) struct ServerPoolSettings {
    pub(crate) connect: CoderConnectFn,
    pub(crate) clock: Clock,
    pub(crate) telemetry: CoderMetrics,
    /// Where accounts are shown.
    pub(crate) limiters: LimiterRegistry,
    /// Of everything that is drawn.
    pub(crate) seed: u64,
    /// Called for objects whose turn has come.
    pub(crate) notify: Tell,
}

/// All servers. Clones share them.
#[derive(Clone)]
pub(crate) struct ServerPool(Arc<Inner>);

struct Inner {
    common: Arc<Common>,
    state: Mutex<State>,
}

/// What all servers share.
struct Common {
    settings: ServerPoolSettings,
    backoffs: ObjectBackoffs,
    waiters: Arc<CallWaiters>,
}

#[derive(Default)]
struct State {
    servers: BTreeMap<ServerUrl, Arc<ServerState>>,
    clients: BTreeMap<Which, (ServerClient, Instant)>,
    transports: BTreeMap<Authorities, Transport>,
}

/// A digest of a CA bundle.
type Authorities = Option<[u8; 32]>;
/// A server as it is reached with one token.
type Which = (ServerUrl, Authorities, [u8; 32]);

/// One server, called with one token. Clones share what is known.
#[derive(Clone)]
pub(crate) struct ServerClient(Arc<TokenClient>);

/// Who asks, and on which terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// For which object.
    pub(crate) object: &'a ObjectRef,
    /// Whether it wants not to be counted.
    pub(crate) bypass: bool,
    /// The right to act.
    pub(crate) fence: &'a Fence,
    /// When it is too late for an answer.
    pub(crate) deadline: Instant,
    /// What the object's status says of the rate limit, so that a new process goes on where one ended.
    pub(crate) limited: Option<&'a RateLimited>,
}

impl Caller<'_> {
    /// When a call has to end, so that its result is processed before the caller's deadline.
    fn call_deadline(&self) -> Instant {
        self.deadline.checked_sub(DEADLINE_MARGIN).unwrap_or(self.deadline)
    }

    /// Says so if it is too late to begin anything.
    fn check_deadline(&self) -> Result<(), Pushback> {
        let (until, limited) = (Instant::now(), false);
        match until < self.call_deadline() {
            true => Ok(()),
            false => Err(Pushback::Later { until, limited }),
        }
    }
}

/// What was read, and when.
#[derive(Clone, Debug)]
pub(crate) struct Timestamped<T> {
    /// When it was asked for: it is at least as new.
    pub(crate) requested_at: Instant,
    /// The same moment by the server's clock.
    pub(crate) server_time: Timestamp,
    pub(crate) value: T,
}

/// How new it has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaxAge {
    /// No older than this.
    Within(Duration),
    /// Asked for at this moment or later.
    Since(Instant),
}

impl ServerPool {
    pub(crate) fn new(settings: ServerPoolSettings) -> Self {
        let common = Arc::new(Common {
            backoffs: ObjectBackoffs::new(settings.seed),
            waiters: Arc::new(CallWaiters::new(settings.notify.clone())),
            settings,
        });
        Self(Arc::new(Inner {
            common,
            state: Mutex::default(),
        }))
    }

    /// The server at an address, trusted by the authorities of a bundle, and called with a token.
    /// The same three give the same server.
    pub(crate) fn client(&self, url: &str, ca: Option<&str>, token: &ApiToken) -> Result<ServerClient, String> {
        let base = ServerUrl::parse(url).map_err(|what| format!("server URL {what}"))?;
        let authorities = ca.map(|pem| Sha256::digest(pem.as_bytes()).into());
        let which = (base.clone(), authorities, token.digest());
        let now = Instant::now();
        self.with_state(|state| {
            if let Some((server, used)) = state.clients.get_mut(&which) {
                *used = now;
                return Ok(server.clone());
            }
            state.evict_unused(now);
            let way = match state.transports.get(&authorities) {
                Some(way) => way.clone(),
                None => (self.0.common.settings.connect)(ca).map_err(|why| why.to_string())?,
            };
            state.transports.insert(authorities, way.clone());
            let site = state.servers.entry(base.clone());
            let site = site.or_insert_with(|| Arc::new(ServerState::new(base.clone())));
            let client = CoderClient::new(way, base, token.clone());
            let desk = TokenClient::new(self.0.common.clone(), site.clone(), client, token);
            let server = ServerClient(Arc::new(desk));
            state.clients.insert(which, (server.clone(), now));
            Ok(server)
        })
    }

    /// Whether the last answer that an object got was a 429. What it knows from others says nothing of
    /// that.
    pub(crate) fn is_throttled(&self, who: &ObjectRef) -> bool {
        self.0.common.backoffs.is_refused(who)
    }

    /// Removes the state of a deleted object, and its places in queues.
    pub(crate) fn remove(&self, who: &ObjectRef) {
        self.0.common.backoffs.remove(who);
        let looks = self.0.common.waiters.remove_object(who);
        let sites: Vec<_> = self.with_state(|state| state.servers.values().cloned().collect());
        for site in sites {
            site.remove(who);
            looks.iter().for_each(|look| site.remove(look));
        }
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let state = self.0.state.lock();
        act(&mut state.unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Lets go of tokens that were replaced, and of what only they have used.
    fn evict_unused(&mut self, now: Instant) {
        self.clients.retain(|_, (_, used)| now < *used + UNUSED_TTL);
        let desks = &self.clients;
        let used = |base: &ServerUrl| desks.keys().any(|(used, ..)| used == base);
        self.servers.retain(|base, _| used(base));
        let trusted = |ca: &Authorities| desks.keys().any(|(_, used, _)| used == ca);
        self.transports.retain(|ca, _| trusted(ca));
    }
}

impl<T> Timestamped<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Timestamped<U> {
        Timestamped {
            requested_at: self.requested_at,
            server_time: self.server_time,
            value: change(self.value),
        }
    }
}

impl MaxAge {
    /// Whether what was asked for at `at` is new enough.
    fn accepts(self, at: Instant, now: Instant) -> bool {
        match self {
            Self::Within(age) => now.saturating_duration_since(at) < age,
            Self::Since(moment) => at >= moment,
        }
    }
}

impl fmt::Debug for ServerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.with_state(|state| state.servers.keys().cloned().collect());
        f.debug_tuple("Servers").field(&names).finish()
    }
}

impl fmt::Debug for ServerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.0.site.base).finish()
    }
}

#[cfg(test)]
mod tests;

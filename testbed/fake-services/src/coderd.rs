//! A coderd in a box: provisioner keys and their daemons, workspace proxies, and the rate limit.
//!
//! In a test it is a `tower::Service` in virtual time; behind a socket it is `aplomb sim coderd`.
//! What differs between versions is a switch in [`Config`]. It must not know who its clients are,
//! beyond the names they give.

mod api;
mod clients;
mod config;
mod core;
mod daemons;
mod error;
mod handler;
mod identity;
mod json;
mod keys;
pub mod limiter;
mod log;
mod model;
mod pods;
mod proxies;
mod servers;
mod state;
mod store;
mod users;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::service::SharedService;

pub use crate::service::{RunningServer, When, serve, span};
pub use clients::{Client, Given};
pub use config::{Config, OWNER_TOKEN, Version};
pub use core::Fault;
pub use daemons::{Daemon, Outage, Work};
pub use log::Entry;
pub use model::{Key, Organization, Proxy};
pub use pods::{Find, Pods};
pub use servers::FakeProxyServer;
pub use state::{Bucket, Change, State};
pub use users::{Role, User};

/// A client's end of a simulated coderd.
pub type Service = crate::service::Service<core::CoderdCore>;

/// A simulated coderd. Cheap to clone; clones are the same one.
#[derive(Clone, Debug)]
pub struct FakeCoderd {
    held: SharedService<core::CoderdCore>,
}

impl FakeCoderd {
    /// One without keys and proxies.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let clock = config.clock.clone();
        let held = SharedService::new(core::CoderdCore::new(config), clock);
        Self { held }
    }

    /// A client's end.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(self.held.clone())
    }

    /// Everything there is now.
    #[must_use]
    pub fn state(&self) -> State {
        self.with(|core, now| core.state(now))
    }

    /// Replaces what the change names.
    ///
    /// # Errors
    /// What does not fit together; nothing has changed then.
    pub fn change(&self, change: Change) -> Result<(), String> {
        self.with(|core, now| core.change(now, change))
    }

    /// All keys, oldest first.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.with(|core, _| core.store.keys.clone())
    }

    /// Makes a key out of band, and gives its plaintext.
    #[must_use]
    pub fn create_key(&self, organization: &str, name: &str) -> String {
        let tags = BTreeMap::new();
        self.with(|core, now| core.store.add_key(now, organization, name, tags))
    }

    /// Deletes a key out of band. `false`: there is none.
    pub fn delete_key(&self, organization: &str, name: &str) -> bool {
        self.with(|core, now| {
            let id = core.store.key(organization, name).map(|key| key.id.clone());
            id.is_some_and(|id| core.drop_key(now, &id))
        })
    }

    /// Whether this is the plaintext of a key that exists, and which.
    #[must_use]
    pub fn key_with(&self, secret: &str) -> Option<Key> {
        self.with(|core, _| core.store.key_with(secret).cloned())
    }

    /// All workspace proxies that are not deleted, the primary one first.
    #[must_use]
    pub fn proxies(&self) -> Vec<Proxy> {
        let mut all = self.with(|core, _| core.store.proxies.clone());
        all.retain(|it| !it.deleted);
        all
    }

    /// Registers a proxy out of band, and gives its id.
    ///
    /// # Errors
    /// The name is taken.
    pub fn create_proxy(&self, name: &str) -> Result<String, String> {
        self.with(|core, now| {
            if core.store.has_proxy(name, None) {
                return Err(format!("{name} is taken"));
            }
            let (id, made) = (core.store.id(), Proxy::default());
            let name = name.to_owned();
            let made = Proxy { name, ..made }.complete(now, || id.clone());
            core.store.proxies.push(made);
            Ok(id)
        })
    }

    /// Deletes a proxy out of band, as the server does: its row stays. `false`: there is none.
    pub fn delete_proxy(&self, name: &str) -> bool {
        self.with(|core, _| {
            let at = core.store.proxy_at(name);
            at.map(|at| core.store.proxies[at].deleted = true).is_some()
        })
    }

    /// How a proxy is, in the server's word; `None`: there is none.
    #[must_use]
    pub fn proxy_health(&self, name: &str) -> Option<&'static str> {
        self.with(|core, _| {
            let at = core.store.proxy_at(name)?;
            Some(core.proxy_servers.health(&core.store.proxies[at]))
        })
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Entry> {
        self.requests_since(0)
    }

    /// The requests after number `n`.
    #[must_use]
    pub fn requests_since(&self, n: u64) -> Vec<Entry> {
        self.with(|core, _| core.log.since(n))
    }

    /// When daemons that were connected had no working key.
    #[must_use]
    pub fn outages(&self) -> Vec<Outage> {
        self.with(|core, _| core.daemons.outages.clone())
    }

    /// All daemons that run.
    #[must_use]
    pub fn daemons(&self) -> Vec<Daemon> {
        self.with(|core, _| core.daemons.all())
    }

    /// Jobs that did not end by themselves.
    #[must_use]
    pub fn jobs_cut(&self) -> u64 {
        self.with(|core, _| core.daemons.jobs_cut)
    }

    /// Starts a daemon with a key, which dials at once.
    #[must_use = "this stops the daemon"]
    pub fn connect_daemon(&self, key: &str) -> DaemonHandle {
        self.start_daemon(None, key, None)
    }

    /// Starts a daemon with a name, a key, and work to do.
    #[must_use = "this stops the daemon"]
    pub fn start_daemon(&self, name: Option<&str>, key: &str, work: Option<Work>) -> DaemonHandle {
        let secret = users::digest(key);
        let id = self.with(|core, now| core.daemons.start(now, name, secret, work));
        DaemonHandle {
            coderd: self.clone(),
            id,
        }
    }

    /// Starts a proxy server with a token, and gives its id.
    pub fn start_proxy_server(&self, name: Option<&str>, token: &str) -> u64 {
        self.with(|core, _| core.proxy_servers.start(&mut core.store, name, token))
    }

    /// Stops a proxy server.
    pub fn stop_proxy_server(&self, id: u64) {
        self.with(|core, _| core.proxy_servers.stop(id));
    }

    /// Sets the limit.
    pub fn set_limit(&self, limit: i64) {
        self.with(|core, _| core.limiter.set_limit(limit));
    }

    /// Sets a fault and gives its id.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.with(|core, now| core.faults.add(now, fault))
    }

    /// Takes a fault back, or all of them.
    pub fn clear_faults(&self, id: Option<u64>) {
        self.with(|core, _| core.faults.remove(id));
    }

    /// Starts a client.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn client(&self, client: Client) -> Result<(), String> {
        self.with(|core, now| core.start_client(now, client))
    }

    /// Stops a client, or all of them.
    pub fn stop_clients(&self, name: Option<&str>) {
        self.with(|core, now| core.stop_clients(now, name));
    }

    fn with<T>(&self, act: impl FnOnce(&mut core::CoderdCore, Timestamp) -> T) -> T {
        let now = self.held.now();
        act(&mut self.held.at(now), now)
    }
}

/// A daemon that somebody started. Dropping it lets the daemon run.
#[derive(Clone, Debug)]
pub struct DaemonHandle {
    coderd: FakeCoderd,
    id: u64,
}

impl DaemonHandle {
    /// How it is; `None`: it has ended.
    #[must_use]
    pub fn daemon(&self) -> Option<Daemon> {
        let all = self.coderd.daemons();
        all.into_iter().find(|daemon| daemon.id == self.id)
    }

    /// Gives it a job. `false`: it has one, or is not connected.
    pub fn job(&self, length: Duration) -> bool {
        let id = self.id;
        self.coderd.with(|core, now| core.daemons.run_job(now, id, length))
    }

    /// Asks it to stop when it is idle, at the latest after the grace. Says how long that is.
    pub fn stop(&self, grace: Duration) -> Duration {
        let id = self.id;
        self.coderd.with(|core, now| {
            let end = core.daemons.stop(now, id, grace);
            Duration::try_from(end.duration_since(now)).unwrap_or_default()
        })
    }

    /// Ends it, whatever it does.
    pub fn kill(&self) {
        let id = self.id;
        self.coderd.with(|core, now| core.daemons.kill(now, id));
    }
}

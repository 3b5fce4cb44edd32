//! A Hetzner Cloud API in a box: floating IPs, servers, actions, locks and the rate limit.
//!
//! In a test it is a `tower::Service` in virtual time; behind a socket it is `aplomb sim hetzner`.
//! What is not known about the real service is a switch in [`Config`]. It must not know who its
//! clients are, beyond the names they give.

mod api;
mod background_clients;
pub mod bucket;
mod config;
mod core;
pub mod error;
mod fault;
mod handler;
mod json;
mod listing;
mod log;
pub mod model;
mod state;
pub mod store;

use crate::service::SharedService;

pub use crate::service::{RunningServer, When, serve, span};
pub use background_clients::{BackgroundClients, Shape};
pub use config::{Config, DEFAULT_PROJECT, SameServer, Scope, Token};
pub use fault::{ActionFault, Fault};
pub use log::Entry;
pub use model::{ActionRecord, FloatingIp, Server};
pub use state::{BucketState, Change, State};

/// A client's end of a simulated Hetzner Cloud.
pub type Service = crate::service::Service<core::HcloudCore>;

/// A simulated Hetzner Cloud. Cheap to clone; clones are the same one.
#[derive(Clone, Debug)]
pub struct FakeHcloud {
    held: SharedService<core::HcloudCore>,
}

impl FakeHcloud {
    /// An empty one.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let clock = config.clock.clone();
        let held = SharedService::new(core::HcloudCore::new(config), clock);
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
        let now = self.held.now();
        self.held.at(now).state(now)
    }

    /// Replaces what the change names.
    ///
    /// # Errors
    /// What does not fit together; nothing has changed then.
    pub fn change(&self, change: Change) -> Result<(), String> {
        let now = self.held.now();
        self.held.at(now).change(now, change)
    }

    /// Who holds a floating IP now.
    #[must_use]
    pub fn holder(&self, floating_ip: u64) -> Option<u64> {
        let core = self.held.at(self.held.now());
        core.store.floating_ip(floating_ip).ok()?.server
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Entry> {
        self.requests_since(0)
    }

    /// The requests after number `n`.
    #[must_use]
    pub fn requests_since(&self, n: u64) -> Vec<Entry> {
        self.held.at(self.held.now()).log.since(n)
    }

    /// What is left in a bucket: of a project, or of a token by its label.
    #[must_use]
    pub fn remaining(&self, bucket: &str) -> u64 {
        let now = self.held.now();
        self.held.at(now).bucket(bucket).peek(now).remaining
    }

    /// Sets a fault and gives its id.
    pub fn fault(&self, fault: Fault) -> u64 {
        let now = self.held.now();
        self.held.at(now).faults.add(now, fault)
    }

    /// Takes a fault back, or all of them.
    pub fn clear_faults(&self, id: Option<u64>) {
        self.held.at(self.held.now()).faults.remove(id);
    }

    /// Starts a noise client.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn noise(&self, noise: BackgroundClients) -> Result<(), String> {
        let now = self.held.now();
        let mut core = self.held.at(now);
        core.check_noise(&noise)?;
        core.add_noise(now, noise);
        Ok(())
    }

    /// Stops a noise client, or all of them.
    pub fn stop_noise(&self, name: Option<&str>) {
        self.held.at(self.held.now()).noise.remove(name);
    }
}

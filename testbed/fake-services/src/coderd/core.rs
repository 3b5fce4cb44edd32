//! All of the simulator that is state, behind one lock: database, limiter, daemons, faults, log.
//!
//! Time passes only in `advance`, which runs what was due in the order it was due, so that a
//! lazily driven simulator is the same as one that never slept.

use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::clients::Clients;
use super::config::Config;
use super::daemons::Daemons;
use super::limiter::Limiter;
use super::log::Entry;
use super::servers::ProxyServers;
use super::store::Store;
use crate::service::control::read;
use crate::service::{self, Faults, Log, Outcome};

/// A fault to order. Nothing here takes long, so there is no work for it to bend.
pub type Fault = service::Fault<()>;

/// Everything the lock guards.
#[derive(Debug)]
pub struct CoderdCore {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) limiter: Limiter,
    pub(super) daemons: Daemons,
    pub(super) proxy_servers: ProxyServers,
    pub(super) clients: Clients,
    pub(super) faults: Faults<()>,
    pub(super) log: Log<Entry>,
}

impl CoderdCore {
    pub(super) fn new(config: Config) -> Self {
        Self {
            store: Store::new(&config),
            limiter: Limiter::new(config.limit, config.offset),
            daemons: Daemons::new(config.heartbeat),
            proxy_servers: ProxyServers::default(),
            clients: Clients::new(config.seed),
            faults: Faults::new(config.seed),
            log: Log::default(),
            config,
        }
    }
}

impl service::FakeService for CoderdCore {
    type Action = ();

    fn advance(&mut self, now: Timestamp) {
        loop {
            let daemon = self.daemons.next().filter(|at| *at <= now);
            let client = self.clients.next().filter(|at| *at <= now);
            match (daemon, client) {
                (None, None) => break,
                (Some(at), client) if client.is_none_or(|client| at <= client) => {
                    self.daemons.step(at, &self.store, self.config.ends_sessions);
                }
                (_, Some(at)) => self.run_noise(at),
                (Some(_), None) => break,
            }
        }
    }

    fn exchange(&mut self, now: Timestamp, request: &Request<Bytes>) -> Outcome {
        self.serve(now, request)
    }

    fn show(&mut self, now: Timestamp) -> Value {
        json!(self.state(now))
    }

    fn put(&mut self, now: Timestamp, body: &[u8]) -> Result<(), String> {
        self.change(now, read(body)?)
    }

    fn requests(&self, n: u64) -> (Value, u64) {
        (json!(self.log.since(n)), self.log.next())
    }

    fn faults(&mut self) -> &mut Faults<()> {
        &mut self.faults
    }

    fn cannot(&self, fault: &Fault) -> Option<String> {
        let coded = fault.code.as_ref();
        coded.map(|_| "code: coderd's refusals have none; give a status".to_owned())
    }

    fn clients(&self) -> Value {
        json!(self.clients.all())
    }

    fn add_client(&mut self, now: Timestamp, body: &[u8]) -> Result<(), String> {
        self.start_client(now, read(body)?)
    }

    fn remove_clients(&mut self, now: Timestamp, name: Option<&str>) -> usize {
        self.stop_clients(now, name)
    }
}

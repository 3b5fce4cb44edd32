//! What stand-ins for services have in common: a lock around state that is told the time, a service
//! in front of it, a socket, a log, faults to order and the control plane under `/_sim`.
//!
//! Nothing here knows what any of those services says.

pub(crate) mod control;
pub(crate) mod draft;
mod fault;
mod handler;
mod log;
mod serve;
pub mod span;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use aplomb_apimachinery::clock::Clock;

pub use fault::{Fault, FaultRequest, Faults, When};
pub use handler::{Outcome, Peer, Service};
pub use log::Log;
pub use serve::{RunningServer, serve};

/// The state of a stand-in. Synchronous and told the time: waiting is the service's affair.
pub trait FakeService: std::fmt::Debug + Send + 'static {
    /// What a fault can do to the work that a request begins.
    type Action: Clone + Default + Serialize + DeserializeOwned;

    /// Lets time pass until now: does what was due, in the order it was due.
    fn advance(&mut self, now: Timestamp);

    /// Serves one request that arrives now.
    fn exchange(&mut self, now: Timestamp, request: &Request<Bytes>) -> Outcome;

    /// Everything there is.
    fn show(&mut self, now: Timestamp) -> Value;

    /// Replaces what a body names.
    ///
    /// # Errors
    /// What does not fit; nothing has changed then.
    fn put(&mut self, now: Timestamp, body: &[u8]) -> Result<(), String>;

    /// The requests after number `n`, and the number the next one gets.
    fn requests(&self, n: u64) -> (Value, u64);

    /// The faults that are set.
    fn faults(&mut self) -> &mut Faults<Self::Action>;

    /// What a fault asks for that this service cannot do.
    fn cannot(&self, fault: &Fault<Self::Action>) -> Option<String> {
        let _ = fault;
        None
    }

    /// The clients that the stand-in plays itself.
    fn clients(&self) -> Value;

    /// Starts a client.
    ///
    /// # Errors
    /// What is wrong with it.
    fn add_client(&mut self, now: Timestamp, body: &[u8]) -> Result<(), String>;

    /// Stops a client, or all of them. Returns how many are gone.
    fn remove_clients(&mut self, now: Timestamp, name: Option<&str>) -> usize;
}

/// A core behind its lock, and the clock it is told. Cheap to clone; clones are the same one.
#[derive(Debug)]
pub struct SharedService<C> {
    core: Arc<Mutex<C>>,
    clock: Clock,
}

impl<C> Clone for SharedService<C> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            clock: self.clock.clone(),
        }
    }
}

impl<C: FakeService> SharedService<C> {
    /// Puts a core behind a lock.
    pub fn new(core: C, clock: Clock) -> Self {
        let core = Arc::new(Mutex::new(core));
        Self { core, clock }
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The state with everything done that was due.
    pub fn at(&self, now: Timestamp) -> MutexGuard<'_, C> {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        core.advance(now);
        core
    }
}

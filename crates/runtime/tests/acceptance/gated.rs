//! A client with its own gate, and the requests its server received, for the tests of both.

use std::time::Duration;

use aplomb::client::{ClientLimits, limit_client};
use aplomb::clock::Clock;
use aplomb::ratelimit::{LimitConfig, RateLimiter};
use aplomb::telemetry::Telemetry;
use kube::Client;

/// A client behind a gate.
pub(crate) struct Gated {
    pub(crate) client: Client,
    pub(crate) budget: RateLimiter,
    pub(crate) telemetry: Telemetry,
}

impl Gated {
    /// `client` behind a gate with the API server's usual budget.
    pub(crate) fn new(client: Client) -> Self {
        Self::with_config(client, LimitConfig::api_server())
    }

    /// `client` behind a gate with this budget.
    pub(crate) fn with_config(client: Client, config: LimitConfig) -> Self {
        let telemetry = Telemetry::default();
        let budget = RateLimiter::new("apiserver", config, telemetry.clone(), Clock::system());
        let gate = ClientLimits::new(budget.clone(), telemetry.clone());
        Self {
            client: limit_client(client, gate),
            budget,
            telemetry,
        }
    }

    /// Calls that hold a slot.
    pub(crate) fn in_flight(&self) -> usize {
        let lanes = self.budget.snapshot().lanes;
        lanes.iter().map(|lane| lane.in_flight).sum()
    }
}

/// The requests of `identity`, from the trace of a run: time and URL.
pub(crate) fn requests(trace: &[String], identity: &str) -> Vec<(Duration, String)> {
    let read = |line: &String| {
        let mut words = line.split(' ');
        let at = words.next()?.parse().ok()?;
        let (who, what, _number, _method) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let url = words.next()?.to_owned();
        (who == identity && what == "request").then(|| (Duration::from_secs_f64(at), url))
    };
    trace.iter().filter_map(read).collect()
}

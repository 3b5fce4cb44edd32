//! Limits for the calls of a controller to its API server: rate limit, deadline, and handling of 429.
//!
//! A layer on a `kube::Client`, so that every `kube::Api` made of it has the rate limit and the
//! deadline of the run it is used in. It sends each request at most once and never retries:
//! only the queue does. Whether this replica may write at all is decided by the fence,
//! not here.

mod body;
mod call;
mod once;
mod refusal;
mod service;

use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};

use self::service::LimitedClient;
use crate::error::Result;
use crate::ratelimit::RateLimiter;
use crate::telemetry::Telemetry;

/// How long a call may take, including its wait and its body, unless set.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// The limits of a client.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// The rate limiter of its calls.
    pub budget: RateLimiter,
    /// How long each call may take. Inside a run, at most until the run's own deadline.
    pub request_deadline: Duration,
    /// The name of the server in metrics.
    pub host: Arc<str>,
    /// The metrics of its calls.
    pub telemetry: Telemetry,
}

impl ClientLimits {
    /// Limits with the default deadline; metrics name the server like its rate limiter.
    #[must_use]
    pub fn new(budget: RateLimiter, telemetry: Telemetry) -> Self {
        Self {
            host: budget.name().into(),
            budget,
            request_deadline: REQUEST_DEADLINE,
            telemetry,
        }
    }
}

/// A client whose every request passes `gate`. The client's own retries are
/// disabled, so that the first response of the server reaches the gate.
///
/// # Panics
/// Outside a tokio runtime, as [`Client::new`] does.
#[must_use]
pub fn limit_client(client: Client, gate: ClientLimits) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    Client::new(LimitedClient::new(client, gate), namespace).with_valid_until(valid_until)
}

/// A kube client without the hidden retries for minutes and without repeated POSTs.
///
/// # Errors
/// The configuration is invalid.
pub fn client(mut config: Config) -> Result<Client> {
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

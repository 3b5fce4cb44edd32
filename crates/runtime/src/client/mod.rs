//! What stands between a controller and its API server: a turn, a deadline, and an ear for refusals.
//!
//! A layer on a `kube::Client`, so that any `kube::Api` made of it is held to the budget and to the
//! deadline of the run it is used in. It sends each request at most once and never tries one again:
//! the queue is the one place that does. Whether this replica may write at all is the fence's
//! business, not the gate's.

mod body;
mod call;
mod once;
mod refusal;
mod service;

use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};

use self::service::LimitedClient;
use crate::ratelimit::RateLimiter;
use crate::error::Result;
use crate::telemetry::Telemetry;

/// How long a call may take, its turn and its body included, unless set.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// What a client is held to.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// What its calls spend from.
    pub budget: RateLimiter,
    /// How long each may take. Inside a run, the run's own deadline if that is earlier.
    pub request_deadline: Duration,
    /// What metrics call the server.
    pub host: Arc<str>,
    /// Where calls are counted.
    pub telemetry: Telemetry,
}

impl ClientLimits {
    /// A gate with the usual deadline that calls the server by the budget's name.
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

/// A client whose every request passes `gate`. Retries that `client` would make by itself are
/// switched off: what a server says reaches the gate the first time.
///
/// # Panics
/// Outside a tokio runtime, as [`Client::new`] does.
#[must_use]
pub fn limit_client(client: Client, gate: ClientLimits) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    Client::new(LimitedClient::new(client, gate), namespace).with_valid_until(valid_until)
}

/// A client as kube makes it, without the minutes of hidden retries and the replayed POSTs.
///
/// # Errors
/// The configuration cannot be used.
pub fn client(mut config: Config) -> Result<Client> {
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

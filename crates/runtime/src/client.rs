//! Limits for the calls of a controller to its API server: rate limit, deadline, and handling of 429.
//!
//! A layer on a `kube::Client`, so that every `kube::Api` made of it has the rate limit and the
//! deadline of the run it is used in. It sends each request at most once and never retries:
//! only the queue does. Whether this replica may write at all is decided by the fence,
//! not here.

mod body;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};
use kube::client::Body;
use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, Service};
use tracing::{Instrument, Span, field};

use self::body::{DeadlineBody, SingleUseBody};
use self::request::{ApiRequest, ThrottleResponse, ThrottleScope, retry_delay};
use crate::call_context::CallContext;
use crate::error::{Error, ErrorClass, Result};
use crate::ratelimit::{Permit, RateLimiter, api};
use crate::telemetry::{CollectionThrottled, DeadlineExceeded, RequestDone, Telemetry};

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

/// The absolute limit of a request, regardless of configuration.
const MAX_DEADLINE: Duration = Duration::from_secs(3600);

type Answer = Result<Response<DeadlineBody>, BoxError>;

/// A client behind its gate.
#[derive(Clone)]
struct LimitedClient(Arc<Inner>);

struct Inner {
    client: Client,
    once: SingleUseBody,
    limits: ClientLimits,
    /// Collections that must not be called, each until a time.
    closed: Mutex<BTreeMap<String, Instant>>,
}

impl LimitedClient {
    pub(super) fn new(client: Client, gate: ClientLimits) -> Self {
        Self(Arc::new(Inner {
            client,
            once: SingleUseBody::new(),
            limits: gate,
            closed: Mutex::default(),
        }))
    }
}

impl Service<Request<Body>> for LimitedClient {
    type Response = Response<DeadlineBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.handle(request).await })
    }
}

impl Inner {
    async fn handle(self: Arc<Self>, request: Request<Body>) -> Answer {
        let call = ApiRequest::from_request(&request);
        // Read here and not in `call`, which runs in the task of kube's buffer.
        let scope = CallContext::current();
        let usual = if call.is_watch() { api::BACKGROUND } else { api::WORK };
        let lane = scope.map_or(usual, |scope| scope.lane);
        let deadline = self.deadline(scope);
        let span = tracing::debug_span!(
            "call",
            verb = call.verb,
            resource = call.resource,
            target = %self.limits.budget.target(),
            lane = %self.limits.budget.lane_name(lane),
            outcome = field::Empty,
        );
        let work = async {
            self.check_collection(&call)?;
            if Instant::now() >= deadline {
                return Err(self.deadline_error(&call, "turn"));
            }
            // Sealed first: nothing may delay the request after its wait.
            let request = self.once.seal(request).await?;
            let permit = self.limits.budget.acquire(lane, deadline).await?;
            self.send(call, request, permit, deadline).await
        };
        let answer = work.instrument(span.clone()).await;
        record(&span, &answer);
        answer
    }

    fn deadline(&self, scope: Option<CallContext>) -> Instant {
        let longest = match scope {
            // A page of a list may take longer than most calls, and the watch has its own limit.
            Some(scope) if scope.lane == api::BACKGROUND => MAX_DEADLINE,
            _ => self.limits.request_deadline.min(MAX_DEADLINE),
        };
        let own = Instant::now() + longest;
        scope.map_or(own, |scope| scope.deadline.min(own))
    }

    /// Fails if the collection must not be called yet.
    fn check_collection(&self, call: &ApiRequest) -> Result<(), Error> {
        if !call.is_watch() && !call.is_list() {
            return Ok(());
        }
        let mut closed = self.closed.lock();
        let now = Instant::now();
        closed.retain(|_, until| *until > now);
        match closed.get(&call.collection) {
            Some(until) => Err(Error::throttled(format!("{call}: rate limited"), *until)),
            None => Ok(()),
        }
    }

    async fn send(
        self: &Arc<Self>,
        call: ApiRequest,
        request: Request<Body>,
        permit: Permit,
        deadline: Instant,
    ) -> Answer {
        let method = request.method().clone();
        let head = timeout_at(deadline, self.client.send(request)).await;
        let code = match &head {
            Ok(Ok(response)) => Some(response.status().as_u16()),
            _ => None,
        };
        self.limits.telemetry.emit(RequestDone {
            code,
            method: method.as_str(),
            host: &self.limits.host,
        });
        let Ok(head) = head else {
            return Err(self.deadline_error(&call, "head"));
        };
        let response = head.map_err(unwrap_error)?;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            return self.handle_throttle(&call, response, permit, deadline).await;
        }
        permit.record_answer(response.status().as_u16(), response.headers());
        if call.is_streaming || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response.map(DeadlineBody::without_deadline));
        }
        let gate = self.clone();
        let exceeded = move || gate.deadline_error(&call, "body");
        Ok(response.map(|body| DeadlineBody::with_deadline(body, deadline, permit, exceeded)))
    }

    async fn handle_throttle(
        &self,
        call: &ApiRequest,
        response: Response<Body>,
        permit: Permit,
        deadline: Instant,
    ) -> Answer {
        let lane = permit.lane();
        let (head, body) = response.into_parts();
        let heard = call.is_rate_limit_only() && head.headers.contains_key(RETRY_AFTER);
        if heard {
            // Reading its body may take long: other calls must be held back at once.
            permit.record_answer(429, &head.headers);
        }
        let read = timeout_at(deadline, ThrottleResponse::read(body)).await;
        let refusal = read.ok().and_then(Result::ok).unwrap_or_default();
        let hints = refusal.hints(&head.headers);
        match refusal.scope(call, lane) {
            ThrottleScope::Request => {
                let body = Body::from(refusal.body.to_vec());
                Ok(Response::from_parts(head, DeadlineBody::without_deadline(body)))
            }
            ThrottleScope::Collection => {
                let until = self.close_collection(call, &hints);
                self.limits.telemetry.emit(CollectionThrottled {
                    target: self.limits.budget.target(),
                    resource: &call.resource,
                    wait: until.duration_since(Instant::now()),
                });
                Err(self.throttled_error(call, &refusal.message(), Some(until)))
            }
            ThrottleScope::Server => {
                if !heard {
                    permit.record_answer(429, &hints);
                }
                let until = self.limits.budget.closed_until();
                Err(self.throttled_error(call, &refusal.message(), until))
            }
        }
    }

    /// Rejects reads of this collection for as long as the server requested.
    fn close_collection(&self, call: &ApiRequest, hints: &HeaderMap) -> Instant {
        let until = Instant::now() + retry_delay(hints);
        let mut closed = self.closed.lock();
        let held = closed.entry(call.collection.clone()).or_insert(until);
        *held = until.max(*held);
        *held
    }

    fn throttled_error(&self, call: &ApiRequest, message: &str, until: Option<Instant>) -> BoxError {
        let what = format!("{call}: rate limited by {}: {message}", self.limits.budget.name());
        Error::throttled(what, until.unwrap_or_else(Instant::now)).into()
    }

    fn deadline_error(&self, call: &ApiRequest, part: &'static str) -> BoxError {
        self.limits.telemetry.emit(DeadlineExceeded {
            target: self.limits.budget.target(),
            verb: call.verb,
            resource: &call.resource,
            part,
        });
        let name = self.limits.budget.name();
        let what = format!("{call}: {name} did not respond before the deadline ({part})");
        Error::new(ErrorClass::Unavailable, what).into()
    }
}

/// An error as it was before kube's inner client wrapped it, for the outer one to wrap again.
pub(super) fn unwrap_error(error: kube::Error) -> BoxError {
    match error {
        kube::Error::Service(inner) => inner,
        other => other.into(),
    }
}

fn record(span: &Span, answer: &Answer) {
    match answer {
        Ok(response) => span.record("outcome", response.status().as_u16()),
        Err(error) => match error.downcast_ref::<Error>() {
            Some(ours) => span.record("outcome", ours.class().as_str()),
            None => span.record("outcome", "error"),
        },
    };
}

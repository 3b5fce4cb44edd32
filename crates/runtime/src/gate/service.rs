//! The gate itself: one request, from its wait to the end of its response.
//!
//! All waiting is inside the response future, in the caller's task. Readiness is never withheld:
//! kube's buffer polls it for all callers, and one waiter would block them all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, Service};
use tracing::{Instrument, Span, field};

use super::ClientLimits;
use super::body::DeadlineBody;
use super::call::ApiRequest;
use super::once::SingleUseBody;
use super::refusal::{self, ThrottleResponse, ThrottleScope};
use crate::budget::{Permit, api};
use crate::error::{Error, ErrorClass};
use crate::scope::CallContext;
use crate::telemetry::{CollectionThrottled, DeadlineExceeded, RequestDone};

/// The absolute limit of a request, regardless of configuration.
const LONGEST: Duration = Duration::from_secs(3600);

type Answer = Result<Response<DeadlineBody>, BoxError>;

/// A client behind its gate.
#[derive(Clone)]
pub(super) struct LimitedClient(Arc<Inner>);

struct Inner {
    client: Client,
    once: SingleUseBody,
    gate: ClientLimits,
    /// Collections that must not be called, each until a time.
    closed: Mutex<BTreeMap<String, Instant>>,
}

impl LimitedClient {
    pub(super) fn new(client: Client, gate: ClientLimits) -> Self {
        Self(Arc::new(Inner {
            client,
            once: SingleUseBody::new(),
            gate,
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
        Box::pin(async move { inner.pass(request).await })
    }
}

impl Inner {
    async fn pass(self: Arc<Self>, request: Request<Body>) -> Answer {
        let call = ApiRequest::of(&request);
        // Read here and not in `call`, which runs in the task of kube's buffer.
        let scope = CallContext::current();
        let usual = if call.is_watch() {
            api::BACKGROUND
        } else {
            api::WORK
        };
        let lane = scope.map_or(usual, |scope| scope.lane);
        let deadline = self.deadline(scope);
        let span = tracing::debug_span!(
            "call",
            verb = call.verb,
            resource = call.resource,
            target = %self.gate.budget.target(),
            lane = %self.gate.budget.lane_name(lane),
            outcome = field::Empty,
        );
        let work = async {
            self.ask(&call)?;
            if Instant::now() >= deadline {
                return Err(self.exceeded(&call, "turn"));
            }
            // Sealed first: nothing may delay the request after its wait.
            let request = self.once.seal(request).await?;
            let permit = self.gate.budget.acquire(lane, deadline).await?;
            self.send(call, request, permit, deadline).await
        };
        let answer = work.instrument(span.clone()).await;
        record(&span, &answer);
        answer
    }

    fn deadline(&self, scope: Option<CallContext>) -> Instant {
        let longest = match scope {
            // A page of a list may take longer than most calls, and the watch has its own limit.
            Some(scope) if scope.lane == api::BACKGROUND => LONGEST,
            _ => self.gate.request_deadline.min(LONGEST),
        };
        let own = Instant::now() + longest;
        scope.map_or(own, |scope| scope.deadline.min(own))
    }

    /// Fails if the collection must not be called yet.
    fn ask(&self, call: &ApiRequest) -> Result<(), Error> {
        if !call.is_watch() && !call.is_list() {
            return Ok(());
        }
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.gate.telemetry.emit(RequestDone {
            code,
            method: method.as_str(),
            host: &self.gate.host,
        });
        let Ok(head) = head else {
            return Err(self.exceeded(&call, "head"));
        };
        let response = head.map_err(unwrapped)?;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            return self.refused(&call, response, permit, deadline).await;
        }
        permit.answered(response.status().as_u16(), response.headers());
        if call.endless || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response.map(DeadlineBody::endless));
        }
        let gate = self.clone();
        let exceeded = move || gate.exceeded(&call, "body");
        Ok(response.map(|body| DeadlineBody::until(body, deadline, permit, exceeded)))
    }

    async fn refused(
        &self,
        call: &ApiRequest,
        response: Response<Body>,
        permit: Permit,
        deadline: Instant,
    ) -> Answer {
        let lane = permit.lane();
        let (head, body) = response.into_parts();
        let heard = call.is_one_of_many() && head.headers.contains_key(RETRY_AFTER);
        if heard {
            // Reading its body may take long: other calls must be held back at once.
            permit.answered(429, &head.headers);
        }
        let read = timeout_at(deadline, ThrottleResponse::read(body)).await;
        let refusal = read.ok().and_then(Result::ok).unwrap_or_default();
        let hints = refusal.hints(&head.headers);
        match refusal.meant(call, lane) {
            ThrottleScope::Nobody => {
                let body = Body::from(refusal.body.to_vec());
                Ok(Response::from_parts(head, DeadlineBody::endless(body)))
            }
            ThrottleScope::Readers => {
                let until = self.spare(call, &hints);
                self.gate.telemetry.emit(CollectionThrottled {
                    target: self.gate.budget.target(),
                    resource: &call.resource,
                    wait: until.duration_since(Instant::now()),
                });
                Err(self.throttled(call, &refusal.message(), Some(until)))
            }
            ThrottleScope::Everybody => {
                if !heard {
                    permit.answered(429, &hints);
                }
                let until = self.gate.budget.closed_until();
                Err(self.throttled(call, &refusal.message(), until))
            }
        }
    }

    /// Rejects reads of this collection for as long as the server requested.
    fn spare(&self, call: &ApiRequest, hints: &HeaderMap) -> Instant {
        let until = Instant::now() + refusal::wait(hints);
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let held = closed.entry(call.collection.clone()).or_insert(until);
        *held = until.max(*held);
        *held
    }

    fn throttled(&self, call: &ApiRequest, message: &str, until: Option<Instant>) -> BoxError {
        let what = format!(
            "{call}: rate limited by {}: {message}",
            self.gate.budget.name()
        );
        Error::throttled(what, until.unwrap_or_else(Instant::now)).into()
    }

    fn exceeded(&self, call: &ApiRequest, part: &'static str) -> BoxError {
        self.gate.telemetry.emit(DeadlineExceeded {
            target: self.gate.budget.target(),
            verb: call.verb,
            resource: &call.resource,
            part,
        });
        let name = self.gate.budget.name();
        let what = format!("{call}: {name} did not respond before the deadline ({part})");
        Error::new(ErrorClass::Unavailable, what).into()
    }
}

/// An error as it was before kube's inner client wrapped it, for the outer one to wrap again.
pub(super) fn unwrapped(error: kube::Error) -> BoxError {
    match error {
        kube::Error::Service(inner) => inner,
        other => other.into(),
    }
}

fn record(span: &Span, answer: &Answer) {
    match answer {
        Ok(response) => span.record("outcome", response.status().as_u16()),
        Err(error) => match error.downcast_ref::<Error>() {
            Some(ours) => span.record("outcome", ours.class().word()),
            None => span.record("outcome", "error"),
        },
    };
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! One request and its answer: the lease right before it, a limit on how long it may take, and what it
//! teaches the account, the gate, the server's clock and the metrics.

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use super::{Caller, ServerClient, Timestamped};
use crate::budget::Permit;
use crate::client::{CallError, CoderCall, CoderEndpoint, CoderResponse};
use crate::object::Object;
use crate::pushback::Pushback;
use crate::telemetry::{CallCompleted, CallStale, LimitReported};

/// An answer that takes longer is not worth waiting for.
const CALL: Duration = Duration::from_secs(10);

/// How a call is paid for.
pub(super) enum CallCharge {
    With(Permit),
    /// The server is asked not to count it.
    Uncounted,
}

/// A permit whose call is in flight: it is spent even if its caller stops waiting.
struct Sending(Option<Permit>);

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.unanswered();
        }
    }
}

/// When a call was sent.
struct Sent {
    at: Instant,
    wall: Timestamp,
    by_server: Timestamp,
}

impl ServerClient {
    /// Sends one request. A permit goes back if nothing was sent.
    pub(super) async fn exchange<T>(
        &self,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
        paid: CallCharge,
    ) -> Result<Timestamped<T>, Pushback> {
        let sent = Sent {
            at: Instant::now(),
            wall: self.0.common.settings.clock.now(),
            by_server: self.0.now(),
        };
        asker.in_time()?;
        let guard = asker.fence.guard();
        let guard = guard.map_err(|_| CallError::without_lease(ask.endpoint))?;
        let (sending, bypass) = match paid {
            CallCharge::With(permit) => (Sending(Some(permit)), false),
            CallCharge::Uncounted => (Sending(None), true),
        };
        let deadline = asker.last().min(sent.at + CALL);
        let answer = timeout_at(deadline, self.0.client.send(ask, bypass)).await;
        let answer = answer.unwrap_or_else(|_| Err(CallError::late(ask.endpoint)));
        self.learn(asker.who, ask.endpoint, &sent, sending, told(&answer));
        if !guard.still_holds() {
            let (server, endpoint) = (self.0.site.base.name(), ask.endpoint);
            let telemetry = &self.0.common.settings.telemetry;
            telemetry.emit(CallStale { server, endpoint });
        }
        let answer = answer?;
        Ok(Timestamped {
            at: sent.at,
            by_server: sent.by_server,
            value: answer.body,
        })
    }

    /// Reports the result of a call to limiter, backoff, clock and metrics.
    fn learn(
        &self,
        who: &Object,
        endpoint: CoderEndpoint,
        sent: &Sent,
        mut sending: Sending,
        told: Option<(u16, &HeaderMap)>,
    ) {
        let (now, wall) = (Instant::now(), self.0.common.settings.clock.now());
        let (server, telemetry) = (self.0.site.base.name(), &self.0.common.settings.telemetry);
        telemetry.emit(CallCompleted {
            server,
            endpoint,
            status: told.map(|(status, _)| status),
            took: now - sent.at,
        });
        let Some((status, headers)) = told else {
            return;
        };
        let skew = |skew: &mut super::skew::ClockSkew| skew.learn(headers, sent.wall, wall);
        self.0.site.skew(skew);
        if let Some(permit) = sending.0.take() {
            permit.answered(status, headers, sent.at, now, wall);
            if let Some((limit, remaining)) = budget(headers) {
                telemetry.emit(LimitReported {
                    server,
                    endpoint,
                    limit,
                    remaining,
                });
            }
        }
        match status {
            429 => self.refused(who),
            _ => self.answered(who),
        }
    }

    /// An object was refused for the rate limit, by its own call or by one that it waited for.
    pub(super) fn refused(&self, who: &Object) {
        let _ = self.0.common.gates.refused(who, Instant::now());
    }

    /// An object has had any other answer.
    pub(super) fn answered(&self, who: &Object) {
        self.0.common.gates.answered(who);
    }
}

fn told<T>(answer: &Result<CoderResponse<T>, CallError>) -> Option<(u16, &HeaderMap)> {
    match answer {
        Ok(answer) => Some((answer.status, &answer.headers)),
        Err(error) => Some((error.status?, &error.headers)),
    }
}

fn budget(headers: &HeaderMap) -> Option<(u32, u32)> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    Some((
        number("x-ratelimit-limit")?,
        number("x-ratelimit-remaining")?,
    ))
}

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
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How a call is paid for.
pub(super) enum CallCharge {
    Counted(Permit),
    /// The server is asked not to count it.
    Uncounted,
}

/// A permit whose call is in flight: it is spent even if its caller stops waiting.
struct Sending(Option<Permit>);

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.record_no_answer();
        }
    }
}

/// When a call was sent.
struct Sent {
    at: Instant,
    wall: Timestamp,
    server_time: Timestamp,
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
            server_time: self.0.now(),
        };
        asker.check_deadline()?;
        let guard = asker.fence.guard();
        let guard = guard.map_err(|_| CallError::lease_lost(ask.endpoint))?;
        let (sending, bypass) = match paid {
            CallCharge::Counted(permit) => (Sending(Some(permit)), false),
            CallCharge::Uncounted => (Sending(None), true),
        };
        let deadline = asker.call_deadline().min(sent.at + CALL_TIMEOUT);
        let answer = timeout_at(deadline, self.0.client.send(ask, bypass)).await;
        let answer = answer.unwrap_or_else(|_| Err(CallError::timed_out(ask.endpoint)));
        self.record_outcome(asker.object, ask.endpoint, &sent, sending, response_headers(&answer));
        if !guard.is_held() {
            let (server, endpoint) = (self.0.site.base.name(), ask.endpoint);
            let telemetry = &self.0.common.settings.telemetry;
            telemetry.emit(CallStale { server, endpoint });
        }
        let answer = answer?;
        Ok(Timestamped {
            requested_at: sent.at,
            server_time: sent.server_time,
            value: answer.body,
        })
    }

    /// Reports the result of a call to limiter, backoff, clock and metrics.
    fn record_outcome(
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
            duration: now - sent.at,
        });
        let Some((status, headers)) = told else {
            return;
        };
        let skew = |skew: &mut super::skew::ClockSkew| skew.learn(headers, sent.wall, wall);
        self.0.site.with_skew(skew);
        if let Some(permit) = sending.0.take() {
            permit.record_answer(status, headers, sent.at, now, wall);
            if let Some((limit, remaining)) = remaining_calls(headers) {
                telemetry.emit(LimitReported {
                    server,
                    endpoint,
                    limit,
                    remaining,
                });
            }
        }
        match status {
            429 => self.record_refusal(who),
            _ => self.record_success(who),
        }
    }

    /// An object was refused for the rate limit, by its own call or by one that it waited for.
    pub(super) fn record_refusal(&self, who: &Object) {
        let _ = self.0.common.backoffs.record_refusal(who, Instant::now());
    }

    /// An object has had any other answer.
    pub(super) fn record_success(&self, who: &Object) {
        self.0.common.backoffs.record_answer(who);
    }
}

fn response_headers<T>(answer: &Result<CoderResponse<T>, CallError>) -> Option<(u16, &HeaderMap)> {
    match answer {
        Ok(answer) => Some((answer.status, &answer.headers)),
        Err(error) => Some((error.status?, &error.headers)),
    }
}

fn remaining_calls(headers: &HeaderMap) -> Option<(u32, u32)> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    Some((number("x-ratelimit-limit")?, number("x-ratelimit-remaining")?))
}

//! One call of one object: backoff, its turn, then one request whose result teaches the limiter, the
//! backoff, the server's clock and the metrics.
//!
//! Callers do not wait for their turn. The fence is checked right before a request is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::ObjectRef;
use aplomb_http_client::ApiToken;
use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::bypass::BypassMemory;
use super::identity::{IdentityCache, LimitOwner};
use super::reads::ReadCache;
use super::{Caller, Common, ServerClient, Timestamped};
use crate::access::fingerprint;
use crate::blocked::Pushback;
use crate::budget::{Account, CallPriority, Permit, Turn};
use crate::client::{
    CallError, CallErrorClass, CoderCall, CoderClient, CoderEndpoint, CoderResponse, Entitlements, Organization,
    ProvisionerKey, ProvisionerKeyDaemons, ServerUrl, WorkspaceProxy,
};
use crate::telemetry::{CallCompleted, CallDeferred, CallStale, DeferReason, LimitReported};

/// How many calls that are not counted may be under way with one account: a server without a limit
/// must not be flooded.
const MAX_UNCOUNTED: usize = 8;

/// One server, for all its callers.
pub(super) struct ServerState {
    pub(super) base: ServerUrl,
    state: Mutex<SiteState>,
}

#[derive(Default)]
struct SiteState {
    skew: ClockSkew,
    limits: BTreeMap<LimitOwner, IdentityLimits>,
    /// Whether it counts by user, and when that was learned.
    per_user: Option<(bool, Instant)>,
}

/// What one identity spends from.
#[derive(Clone)]
pub(super) struct IdentityLimits {
    pub(super) account: Account,
    pub(super) uncounted_slots: Arc<Semaphore>,
}

/// One server, called with one token.
pub(super) struct TokenClient {
    pub(super) common: Arc<Common>,
    pub(super) site: Arc<ServerState>,
    pub(super) client: CoderClient,
    pub(super) fingerprint: String,
    pub(super) identity: Mutex<IdentityCache>,
    pub(super) bypass: Mutex<BypassMemory>,
    pub(super) reads: ReadCaches,
}

/// What many want to know.
#[derive(Default)]
pub(super) struct ReadCaches {
    pub(super) identity: ReadCache<LimitOwner>,
    pub(super) organizations: ReadCache<Organization>,
    pub(super) keys: ReadCache<Vec<ProvisionerKey>>,
    pub(super) daemons: ReadCache<Vec<ProvisionerKeyDaemons>>,
    pub(super) entitlements: ReadCache<Entitlements>,
    pub(super) proxies: ReadCache<Option<WorkspaceProxy>>,
}

impl TokenClient {
    pub(super) fn new(common: Arc<Common>, site: Arc<ServerState>, client: CoderClient, token: &ApiToken) -> Self {
        let fingerprint = fingerprint(token);
        Self {
            common,
            site,
            client,
            identity: Mutex::new(IdentityCache::new(fingerprint.clone())),
            fingerprint,
            bypass: Mutex::default(),
            reads: ReadCaches::default(),
        }
    }

    pub(super) fn with_identity<T>(&self, act: impl FnOnce(&mut IdentityCache) -> T) -> T {
        act(&mut self.identity.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn with_bypass<T>(&self, act: impl FnOnce(&mut BypassMemory) -> T) -> T {
        act(&mut self.bypass.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn now(&self) -> Timestamp {
        let here = self.common.settings.clock.now();
        self.site.with_skew(|skew| skew.to_server_time(here))
    }

    /// The limits of an identity, created on first use.
    pub(super) fn limits(&self, whose: &LimitOwner) -> IdentityLimits {
        self.site.with_state(|state| {
            if let Some(purse) = state.limits.get(whose) {
                return purse.clone();
            }
            let name = format!("coder/{}/{}", self.site.base.name(), whose.name());
            let waiters = self.common.waiters.clone();
            let tell = move |who: &ObjectRef| waiters.notify_waiters(who);
            let account = Account::new(&name, Arc::new(tell));
            self.common.settings.limiters.add(account.clone());
            let purse = IdentityLimits {
                account,
                uncounted_slots: Arc::new(Semaphore::new(MAX_UNCOUNTED)),
            };
            state.limits.insert(whose.clone(), purse.clone());
            purse
        })
    }
}

impl ServerState {
    pub(super) fn new(base: ServerUrl) -> Self {
        Self {
            base,
            state: Mutex::default(),
        }
    }

    pub(super) fn with_skew<T>(&self, act: impl FnOnce(&mut ClockSkew) -> T) -> T {
        self.with_state(|state| act(&mut state.skew))
    }

    /// Whether it counts by user, if that was learned since `oldest`.
    pub(super) fn per_user(&self, oldest: Option<Instant>) -> Option<bool> {
        self.with_state(|state| state.per_user)
            .filter(|(_, at)| oldest.is_none_or(|oldest| *at > oldest))
            .map(|(by_user, _)| by_user)
    }

    pub(super) fn set_per_user(&self, by_user: bool, now: Instant) {
        self.with_state(|state| state.per_user = Some((by_user, now)));
    }

    pub(super) fn remove(&self, who: &ObjectRef) {
        let purses: Vec<_> = self.with_state(|state| state.limits.values().cloned().collect());
        purses.iter().for_each(|purse| purse.account.remove(who));
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut SiteState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ServerClient {
    /// One call of one object.
    pub(super) async fn call<T>(&self, asker: &Caller<'_>, ask: &CoderCall<T>) -> Result<Timestamped<T>, Pushback> {
        self.check_backoff(asker)?;
        let purse = self.limits_for(asker).await?;
        self.send_counted(&purse, asker, ask, asker.object).await
    }

    /// Runs a call that changes something. `doubt` discards cached state if the call may have taken
    /// effect without a response, or met an unexpected state; also if its caller no longer waits.
    pub(super) async fn write<T>(
        &self,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
        doubt: impl Fn(),
    ) -> Result<Timestamped<T>, Pushback> {
        let mut unheard = Unheard {
            invalidate: doubt,
            ambiguous: true,
        };
        let heard = self.call(asker, ask).await;
        unheard.ambiguous = heard.as_ref().err().is_some_and(is_ambiguous);
        heard
    }

    /// The gate: no call of an object that was refused, whatever wakes it.
    pub(super) fn check_backoff(&self, asker: &Caller<'_>) -> Result<(), Pushback> {
        let common = &self.0.common;
        let now = (Instant::now(), common.settings.clock.now());
        match common.backoffs.not_before(asker.object, asker.limited, now) {
            None => Ok(()),
            Some(until) => Err(self.defer_call(DeferReason::Gate, until, true)),
        }
    }

    /// One call out of `purse`, in the queue as `place`: without being counted if that is wanted and works.
    pub(super) async fn send_counted<T>(
        &self,
        purse: &IdentityLimits,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
        place: &ObjectRef,
    ) -> Result<Timestamped<T>, Pushback> {
        if asker.bypass && ask.endpoint.may_bypass() && self.may_bypass() {
            match self.send_uncounted(purse, asker, ask).await {
                Err(Pushback::Refused(error)) if error.class == CallErrorClass::BypassRefused => {}
                other => return other,
            }
        }
        let (lane, now) = (lane_for(ask.endpoint), Instant::now());
        match purse.account.turn(place, lane, &ask.path, now) {
            Turn::Now(permit) => self.exchange(asker, ask, CallCharge::Counted(permit)).await,
            Turn::Later { until, limited } => Err(self.defer_call(DeferReason::Budget, until, limited)),
        }
    }

    pub(super) fn defer_call(&self, reason: DeferReason, until: Instant, limited: bool) -> Pushback {
        let server = self.0.site.base.name();
        self.0.common.settings.telemetry.emit(CallDeferred { server, reason });
        Pushback::Later { until, limited }
    }
}

/// A write without a response so far.
struct Unheard<F: Fn()> {
    invalidate: F,
    ambiguous: bool,
}

impl<F: Fn()> Drop for Unheard<F> {
    fn drop(&mut self) {
        if self.ambiguous {
            (self.invalidate)();
        }
    }
}

fn is_ambiguous(pushback: &Pushback) -> bool {
    matches!(
        pushback.class(),
        Some(CallErrorClass::Server | CallErrorClass::NoAnswer | CallErrorClass::Exists | CallErrorClass::Missing)
    )
}

fn lane_for(endpoint: CoderEndpoint) -> CallPriority {
    match endpoint {
        CoderEndpoint::DeleteKey | CoderEndpoint::DeleteProxy => CallPriority::Delete,
        CoderEndpoint::CreateKey | CoderEndpoint::CreateProxy | CoderEndpoint::PatchProxy => CallPriority::Write,
        CoderEndpoint::BuildInfo
        | CoderEndpoint::User
        | CoderEndpoint::Organization
        | CoderEndpoint::ListKeys
        | CoderEndpoint::ListDaemons
        | CoderEndpoint::Entitlements
        | CoderEndpoint::GetProxy => CallPriority::Read,
    }
}

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
        let guard = asker.fence.guard().map_err(|_| CallError::lease_lost(ask.endpoint))?;
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
        who: &ObjectRef,
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
        let skew = |skew: &mut super::client::ClockSkew| skew.learn(headers, sent.wall, wall);
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
    pub(super) fn record_refusal(&self, who: &ObjectRef) {
        let _ = self.0.common.backoffs.record_refusal(who, Instant::now());
    }

    /// An object has had any other answer.
    pub(super) fn record_success(&self, who: &ObjectRef) {
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

/// How far the server's clock is ahead of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClockSkew(SignedDuration);

impl ClockSkew {
    /// The server's clock when ours shows `here`.
    pub(super) fn to_server_time(self, here: Timestamp) -> Timestamp {
        here.checked_add(self.0).unwrap_or(here)
    }

    /// An answer to a call that was sent and answered at these times of our clock.
    pub(super) fn learn(&mut self, headers: &HeaderMap, sent: Timestamp, came: Timestamp) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
        let Some(date) = date else {
            return;
        };
        let least = date.duration_since(came);
        let most = date.duration_since(sent) + SignedDuration::from_secs(1);
        // A clock that was set in between makes them cross.
        self.0 = self.0.min(most.max(least)).max(least);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn observe_date(skew: &mut ClockSkew, date: &'static str, here: Timestamp) {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static(date));
        skew.learn(&headers, here, here);
    }

    /// 1625768840 is Thu, 08 Jul 2021 18:27:20 GMT.
    const TWENTY: &str = "Thu, 08 Jul 2021 18:27:20 GMT";

    #[test]
    fn a_clock_that_agrees_is_left_alone() {
        let mut skew = ClockSkew::default();
        let here = second(1_625_768_840) + SignedDuration::from_millis(700);
        observe_date(&mut skew, TWENTY, here);
        assert_eq!(skew.to_server_time(here), here);
    }

    #[test]
    fn a_clock_that_is_off_is_moved_to_the_nearest_that_agrees() {
        let mut skew = ClockSkew::default();
        observe_date(&mut skew, TWENTY, second(1_625_768_810));
        assert_eq!(skew.to_server_time(second(1_625_768_810)), second(1_625_768_840));
        observe_date(&mut skew, TWENTY, second(1_625_768_850));
        assert_eq!(skew.to_server_time(second(1_625_768_850)), second(1_625_768_841));
    }

    #[test]
    fn an_invalid_date_is_ignored() {
        let mut skew = ClockSkew::default();
        for date in ["", "yesterday", "1625768840"] {
            observe_date(&mut skew, date, second(0));
        }
        assert_eq!(skew, ClockSkew::default());
    }
}

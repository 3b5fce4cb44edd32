//! Calls that ask the server to bypass its rate limit, and whether it honors that for a token.
//!
//! One call at a time tries the header until the server has honored it, so that a refusal costs one
//! request and not one for each call in flight. A refusal is remembered for an hour, and so is a
//! bypass without effect. Such calls take no turn, but still respect the backoff.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::client::{CallCharge, IdentityLimits};
use super::{Caller, ServerClient, Timestamped};
use crate::blocked::Pushback;
use crate::client::{CallErrorClass, CoderCall};
use crate::telemetry::{BypassIneffective, BypassRefused, DeferReason};

/// How long a refusal is remembered.
const REFUSAL_TTL: Duration = Duration::from_secs(3600);

/// State of the bypass for one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BypassState {
    /// Not tried, or too long ago.
    #[default]
    Untried,
    /// The server honors it.
    Works,
    /// The server refuses it: the token does not belong to an owner.
    Refused,
    /// The server ignores it and counts the calls.
    Ineffective,
}

#[derive(Debug, Default)]
pub(crate) struct BypassMemory {
    state: BypassState,
    in_trial: bool,
    until: Option<Instant>,
}

impl BypassMemory {
    /// The current state.
    pub(crate) fn state(&self, now: Instant) -> BypassState {
        match self.until {
            Some(until) if now >= until => BypassState::Untried,
            _ => self.state,
        }
    }

    /// Whether a call that wants the bypass sends the header. If so, `ended` must be called with
    /// its result.
    pub(crate) fn begin_trial(&mut self, now: Instant) -> bool {
        match self.state(now) {
            BypassState::Works => true,
            BypassState::Refused | BypassState::Ineffective => false,
            BypassState::Untried => !std::mem::replace(&mut self.in_trial, true),
        }
    }

    /// A call with the header ended: with success, a refusal, or no result. Returns the state if it
    /// changed.
    pub(crate) fn end_trial(&mut self, how: Option<Result<(), CallErrorClass>>, now: Instant) -> Option<BypassState> {
        let before = self.state(now);
        self.in_trial = false;
        match how {
            Some(Err(CallErrorClass::BypassRefused)) => self.set_state(BypassState::Refused, before, now),
            Some(Err(CallErrorClass::Limited)) => self.set_state(BypassState::Ineffective, before, now),
            // The handler was reached, so the limiter let it through.
            Some(Ok(()) | Err(CallErrorClass::Invalid | CallErrorClass::Missing | CallErrorClass::Exists)) => {
                if before == BypassState::Untried {
                    (self.state, self.until) = (BypassState::Works, None);
                }
                None
            }
            // A proxy may have responded, or no response arrived.
            Some(Err(_)) | None => None,
        }
    }

    /// The server is too old to support the header.
    pub(crate) fn record_unsupported(&mut self, now: Instant) -> Option<BypassState> {
        let before = self.state(now);
        self.set_state(BypassState::Ineffective, before, now)
    }

    fn set_state(&mut self, what: BypassState, before: BypassState, now: Instant) -> Option<BypassState> {
        if before == what {
            return None;
        }
        (self.state, self.until) = (what, Some(now + REFUSAL_TTL));
        Some(what)
    }
}

/// When one asks again who found too many such calls under way.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// A call that sends the header. Its result is stored even if its caller no longer waits.
struct Trial<'a> {
    server: &'a ServerClient,
    result: Option<Result<(), CallErrorClass>>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        let (now, desk) = (Instant::now(), &self.server.0);
        let news = desk.with_bypass(|memory| memory.end_trial(self.result, now));
        self.server.report_bypass(news);
    }
}

impl ServerClient {
    /// How the bypass stands with this token.
    pub(crate) fn bypass_state(&self) -> BypassState {
        self.0.with_bypass(|memory| memory.state(Instant::now()))
    }

    /// Whether a call that wants the bypass sends its header. If so it must go through
    /// [`Self::send_uncounted`].
    pub(super) fn may_bypass(&self) -> bool {
        let now = Instant::now();
        if self.0.site.per_user(None) == Some(false) {
            let news = self.0.with_bypass(|memory| memory.record_unsupported(now));
            self.report_bypass(news);
            return false;
        }
        self.0.with_bypass(|memory| memory.begin_trial(now))
    }

    /// One call that the server is asked not to count.
    pub(super) async fn send_uncounted<T>(
        &self,
        purse: &IdentityLimits,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
    ) -> Result<Timestamped<T>, Pushback> {
        let mut trial = Trial {
            server: self,
            result: None,
        };
        let slot = timeout_at(asker.call_deadline(), purse.uncounted_slots.acquire()).await;
        let Ok(Ok(_slot)) = slot else {
            let until = Instant::now() + BUSY_RETRY;
            return Err(self.defer_call(DeferReason::Bypass, until, false));
        };
        let heard = self.exchange(asker, ask, CallCharge::Uncounted).await;
        trial.result = match &heard {
            Ok(_) => Some(Ok(())),
            Err(Pushback::Refused(error)) => Some(Err(error.class)),
            Err(Pushback::Later { .. }) => None,
        };
        heard
    }

    /// Says what was not known before.
    fn report_bypass(&self, news: Option<BypassState>) {
        let server = self.0.site.base.name();
        let telemetry = &self.0.common.settings.telemetry;
        match news {
            Some(BypassState::Refused) => telemetry.emit(BypassRefused { server }),
            Some(BypassState::Ineffective) => telemetry.emit(BypassIneffective { server }),
            Some(BypassState::Untried | BypassState::Works) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_tried_once_and_then_never_counted() {
        let mut memory = BypassMemory::default();
        assert!(memory.begin_trial(after(0)));
        assert!(!memory.begin_trial(after(0)), "one tries, the others are counted");
        assert_eq!(memory.end_trial(Some(Ok(())), after(0)), None);
        assert!(memory.begin_trial(after(1)) && memory.begin_trial(after(1)));
        assert_eq!(memory.state(after(100_000)), BypassState::Works);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_costs_one_request_an_hour() {
        let mut memory = BypassMemory::default();
        let mut tries = 0;
        for second in 0..7200 {
            if memory.begin_trial(after(second)) {
                tries += 1;
                let said = memory.end_trial(Some(Err(CallErrorClass::BypassRefused)), after(second));
                assert_eq!(said, Some(BypassState::Refused));
            }
        }
        assert_eq!(tries, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_counts_anyway_is_reported_once() {
        let mut memory = BypassMemory::default();
        assert!(memory.begin_trial(after(0)));
        assert_eq!(memory.end_trial(Some(Ok(())), after(0)), None);
        assert!(memory.begin_trial(after(1)) && memory.begin_trial(after(1)));
        let limited = Some(Err(CallErrorClass::Limited));
        assert_eq!(memory.end_trial(limited, after(2)), Some(BypassState::Ineffective));
        assert_eq!(memory.end_trial(limited, after(2)), None);
        assert!(!memory.begin_trial(after(3)));
        assert_eq!(memory.record_unsupported(after(4)), None);
        assert!(memory.begin_trial(after(3602)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unrelated_failure_is_tried_again() {
        let mut memory = BypassMemory::default();
        for how in [
            None,
            Some(Err(CallErrorClass::Server)),
            Some(Err(CallErrorClass::NoAnswer)),
            Some(Err(CallErrorClass::Token)),
        ] {
            assert!(memory.begin_trial(after(0)));
            assert_eq!(memory.end_trial(how, after(0)), None);
            assert_eq!(memory.state(after(0)), BypassState::Untried);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_success_does_not_undo_a_refusal() {
        let mut memory = BypassMemory::default();
        assert!(memory.begin_trial(after(0)));
        memory.end_trial(Some(Ok(())), after(0));
        assert!(memory.begin_trial(after(1)) && memory.begin_trial(after(1)));
        memory.end_trial(Some(Err(CallErrorClass::BypassRefused)), after(1));
        memory.end_trial(Some(Ok(())), after(2));
        assert_eq!(memory.state(after(2)), BypassState::Refused);
    }
}

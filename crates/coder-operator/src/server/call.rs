//! One call of one object: the gate, then its turn. Neither blocks.

use tokio::time::Instant;

use super::desk::IdentityLimits;
use super::exchange::CallCharge;
use super::{Caller, ServerClient, Timestamped};
use crate::budget::{CallPriority, Turn};
use crate::client::{CallErrorClass, CoderCall, CoderEndpoint};
use crate::object::Object;
use crate::pushback::Pushback;
use crate::telemetry::{CallDeferred, DeferReason};

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
        place: &Object,
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

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
    pub(super) async fn call<T>(
        &self,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
    ) -> Result<Timestamped<T>, Pushback> {
        self.pass(asker)?;
        let purse = self.purse(asker).await?;
        self.spend(&purse, asker, ask, asker.who).await
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
            doubt,
            leaves_one: true,
        };
        let heard = self.call(asker, ask).await;
        unheard.leaves_one = heard.as_ref().err().is_some_and(leaves_a_doubt);
        heard
    }

    /// The gate: no call of an object that was refused, whatever wakes it.
    pub(super) fn pass(&self, asker: &Caller<'_>) -> Result<(), Pushback> {
        let common = &self.0.common;
        let now = (Instant::now(), common.settings.clock.now());
        match common.gates.not_before(asker.who, asker.limited, now) {
            None => Ok(()),
            Some(until) => Err(self.put_off(DeferReason::Gate, until, true)),
        }
    }

    /// One call out of `purse`, in the queue as `place`: without being counted if that is wanted and works.
    pub(super) async fn spend<T>(
        &self,
        purse: &IdentityLimits,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
        place: &Object,
    ) -> Result<Timestamped<T>, Pushback> {
        if asker.bypass && ask.endpoint.may_bypass() && self.may_try() {
            match self.uncounted(purse, asker, ask).await {
                Err(Pushback::Refused(error)) if error.class == CallErrorClass::BypassRefused => {}
                other => return other,
            }
        }
        let (lane, now) = (lane(ask.endpoint), Instant::now());
        match purse.account.turn(place, lane, &ask.path, now) {
            Turn::Now(permit) => self.exchange(asker, ask, CallCharge::With(permit)).await,
            Turn::Later { until, limited } => {
                Err(self.put_off(DeferReason::Budget, until, limited))
            }
        }
    }

    pub(super) fn put_off(&self, reason: DeferReason, until: Instant, limited: bool) -> Pushback {
        let server = self.0.site.base.name();
        self.0
            .common
            .settings
            .telemetry
            .emit(CallDeferred { server, reason });
        Pushback::Later { until, limited }
    }
}

/// A write without a response so far.
struct Unheard<F: Fn()> {
    doubt: F,
    leaves_one: bool,
}

impl<F: Fn()> Drop for Unheard<F> {
    fn drop(&mut self) {
        if self.leaves_one {
            (self.doubt)();
        }
    }
}

fn leaves_a_doubt(pushback: &Pushback) -> bool {
    matches!(
        pushback.class(),
        Some(
            CallErrorClass::Server
                | CallErrorClass::NoAnswer
                | CallErrorClass::Exists
                | CallErrorClass::Missing
        )
    )
}

fn lane(endpoint: CoderEndpoint) -> CallPriority {
    match endpoint {
        CoderEndpoint::DeleteKey | CoderEndpoint::DeleteProxy => CallPriority::Delete,
        CoderEndpoint::CreateKey | CoderEndpoint::CreateProxy | CoderEndpoint::PatchProxy => {
            CallPriority::Write
        }
        CoderEndpoint::BuildInfo
        | CoderEndpoint::User
        | CoderEndpoint::Organization
        | CoderEndpoint::ListKeys
        | CoderEndpoint::ListDaemons
        | CoderEndpoint::Entitlements
        | CoderEndpoint::GetProxy => CallPriority::Look,
    }
}

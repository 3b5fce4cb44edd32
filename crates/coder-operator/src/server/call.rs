//! One call of one object: the gate, then its turn. Nobody waits for either.

use tokio::time::Instant;

use super::desk::Purse;
use super::exchange::Paid;
use super::{Asker, Listed, Server};
use crate::budget::{Lane, Turn};
use crate::client::{Ask, Class, Endpoint};
use crate::object::Object;
use crate::pushback::Pushback;
use crate::telemetry::{PutOff, Reason};

impl Server {
    /// One call of one object.
    pub(super) async fn call<T>(
        &self,
        asker: &Asker<'_>,
        ask: &Ask<T>,
    ) -> Result<Listed<T>, Pushback> {
        self.pass(asker)?;
        let purse = self.purse(asker).await?;
        self.spend(&purse, asker, ask, asker.who).await
    }

    /// One call that changes something. `doubt` makes what is known doubtful, where the call may have
    /// happened without an answer, or has met what nobody knew of; also when nobody waits for it any more.
    pub(super) async fn write<T>(
        &self,
        asker: &Asker<'_>,
        ask: &Ask<T>,
        doubt: impl Fn(),
    ) -> Result<Listed<T>, Pushback> {
        let mut unheard = Unheard {
            doubt,
            leaves_one: true,
        };
        let heard = self.call(asker, ask).await;
        unheard.leaves_one = heard.as_ref().err().is_some_and(leaves_a_doubt);
        heard
    }

    /// The gate: no call of an object that was refused, whatever wakes it.
    pub(super) fn pass(&self, asker: &Asker<'_>) -> Result<(), Pushback> {
        let common = &self.0.common;
        let now = (Instant::now(), common.settings.clock.now());
        match common.gates.not_before(asker.who, asker.limited, now) {
            None => Ok(()),
            Some(until) => Err(self.put_off(Reason::Gate, until, true)),
        }
    }

    /// One call out of `purse`, in the queue as `place`: without being counted if that is wanted and works.
    pub(super) async fn spend<T>(
        &self,
        purse: &Purse,
        asker: &Asker<'_>,
        ask: &Ask<T>,
        place: &Object,
    ) -> Result<Listed<T>, Pushback> {
        if asker.bypass && ask.endpoint.may_bypass() && self.may_try() {
            match self.uncounted(purse, asker, ask).await {
                Err(Pushback::Refused(error)) if error.class == Class::BypassRefused => {}
                other => return other,
            }
        }
        let (lane, now) = (lane(ask.endpoint), Instant::now());
        match purse.account.turn(place, lane, &ask.path, now) {
            Turn::Now(permit) => self.exchange(asker, ask, Paid::With(permit)).await,
            Turn::Later { until, limited } => Err(self.put_off(Reason::Budget, until, limited)),
        }
    }

    pub(super) fn put_off(&self, reason: Reason, until: Instant, limited: bool) -> Pushback {
        let server = self.0.site.base.name();
        self.0
            .common
            .settings
            .telemetry
            .emit(PutOff { server, reason });
        Pushback::Later { until, limited }
    }
}

/// A write of which nobody has heard yet.
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
        Some(Class::Server | Class::NoAnswer | Class::Exists | Class::Missing)
    )
}

fn lane(endpoint: Endpoint) -> Lane {
    match endpoint {
        Endpoint::DeleteKey | Endpoint::DeleteProxy => Lane::Delete,
        Endpoint::CreateKey | Endpoint::CreateProxy | Endpoint::PatchProxy => Lane::Write,
        Endpoint::BuildInfo
        | Endpoint::User
        | Endpoint::Organization
        | Endpoint::ListKeys
        | Endpoint::ListDaemons
        | Endpoint::Entitlements
        | Endpoint::GetProxy => Lane::Look,
    }
}

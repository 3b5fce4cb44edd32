//! Calls that the server is asked not to count. They take no turn, still pass the gate, and teach
//! no budget.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::desk::IdentityLimits;
use super::exchange::CallCharge;
use super::{Caller, ServerClient, Timestamped};
use crate::bypass::BypassState;
use crate::client::{CallErrorClass, CoderCall};
use crate::pushback::Pushback;
use crate::telemetry::{BypassIneffective, BypassRefused, DeferReason};

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
    #[must_use]
    pub fn bypass_state(&self) -> BypassState {
        self.0.with_bypass(|memory| memory.state(Instant::now()))
    }

    /// Whether a call that wants the bypass sends its header. If so it must go through
    /// [`Self::uncounted`].
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

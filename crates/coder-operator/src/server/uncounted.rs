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
const SOON: Duration = Duration::from_secs(1);

/// A call that sends the header. Its result is stored even if its caller no longer waits.
struct Trial<'a> {
    server: &'a ServerClient,
    how: Option<Result<(), CallErrorClass>>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        let (now, desk) = (Instant::now(), &self.server.0);
        let news = desk.bypass(|memory| memory.ended(self.how, now));
        self.server.say(news);
    }
}

impl ServerClient {
    /// How the bypass stands with this token.
    #[must_use]
    pub fn bypass(&self) -> BypassState {
        self.0.bypass(|memory| memory.state(Instant::now()))
    }

    /// Whether a call that wants the bypass sends its header. If so it must go through
    /// [`Self::uncounted`].
    pub(super) fn may_try(&self) -> bool {
        let now = Instant::now();
        if self.0.site.by_user(None) == Some(false) {
            let news = self.0.bypass(|memory| memory.unknown_there(now));
            self.say(news);
            return false;
        }
        self.0.bypass(|memory| memory.begin(now))
    }

    /// One call that the server is asked not to count.
    pub(super) async fn uncounted<T>(
        &self,
        purse: &IdentityLimits,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
    ) -> Result<Timestamped<T>, Pushback> {
        let mut trial = Trial {
            server: self,
            how: None,
        };
        let slot = timeout_at(asker.last(), purse.uncounted.acquire()).await;
        let Ok(Ok(_slot)) = slot else {
            let until = Instant::now() + SOON;
            return Err(self.put_off(DeferReason::Bypass, until, false));
        };
        let heard = self.exchange(asker, ask, CallCharge::Uncounted).await;
        trial.how = match &heard {
            Ok(_) => Some(Ok(())),
            Err(Pushback::Refused(error)) => Some(Err(error.class)),
            Err(Pushback::Later { .. }) => None,
        };
        heard
    }

    /// Says what was not known before.
    fn say(&self, news: Option<BypassState>) {
        let server = self.0.site.base.name();
        let telemetry = &self.0.common.settings.telemetry;
        match news {
            Some(BypassState::Refused) => telemetry.emit(BypassRefused { server }),
            Some(BypassState::Ineffective) => telemetry.emit(BypassIneffective { server }),
            Some(BypassState::Untried | BypassState::Works) | None => {}
        }
    }
}

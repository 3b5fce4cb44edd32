//! Which account a call spends from: the server is asked for its version and for the token's user, and what
//! it said is believed for an hour.
//!
//! Until that is known these two calls spend from the shared limit. Where the server cannot tell,
//! the token has an account of its own for the time being.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::desk::IdentityLimits;
use super::shared::OwnedCaller;
use super::{Caller, MaxAge, ServerClient, Timestamped};
use crate::client::{CallErrorClass, CoderCall, CoderEndpoint};
use crate::identity::{LimitOwner, limits_per_user};
use crate::pushback::Pushback;

/// Name of the combined read of version and user, which has no single path.
const IDENTITY_PATH: &str = "identity";
const IDENTITY_TTL: Duration = Duration::from_secs(3600);
/// It is asked again after an hour; an earlier response is for those who ask meanwhile.
const IDENTITY_MAX_AGE: Duration = Duration::from_secs(1800);

impl ServerClient {
    /// What a call spends from. A future of its own: looks need a purse, and this is a look.
    pub(super) fn limits_for<'a>(&'a self, asker: &'a Caller<'a>) -> BoxFuture<'a, Result<IdentityLimits, Pushback>> {
        async move {
            let whose = self.limit_owner(asker).await?;
            Ok(self.0.limits(&whose))
        }
        .boxed()
    }

    async fn limit_owner(&self, asker: &Caller<'_>) -> Result<LimitOwner, Pushback> {
        let now = Instant::now();
        if let Some(whose) = self.0.with_identity(|known| known.fresh_owner(now)) {
            return Ok(whose);
        }
        let begin = |owned: OwnedCaller| {
            let server = self.clone();
            async move { server.read_identity(&owned.caller()).await }.boxed()
        };
        let table = &self.0.reads.identity;
        let fresh = MaxAge::Within(IDENTITY_MAX_AGE);
        let at = (CoderEndpoint::User, IDENTITY_PATH);
        match self.read_cached(table, asker, at, fresh, begin).await {
            Ok(told) => {
                let whose = told.value.clone();
                self.0.with_identity(|known| known.set_owner(whose.clone(), now));
                Ok(whose)
            }
            Err(Pushback::Refused(error)) if is_transient(error.class) => {
                Ok(self.0.with_identity(|known| known.record_failure(now)))
            }
            Err(pushback) => Err(pushback),
        }
    }

    async fn read_identity(&self, asker: &Caller<'_>) -> Result<Timestamped<LimitOwner>, Pushback> {
        let (all, place) = (
            self.0.limits(&LimitOwner::SourceAddress),
            self.queue_entry(IDENTITY_PATH),
        );
        let now = Instant::now();
        let by_user = match self.0.site.per_user(now.checked_sub(IDENTITY_TTL)) {
            Some(by_user) => by_user,
            None => {
                let ask = CoderCall::build_info();
                let told = self.send_counted(&all, asker, &ask, &place).await?;
                let by_user = limits_per_user(&told.value.version);
                self.0.site.set_per_user(by_user, now);
                by_user
            }
        };
        if !by_user {
            return Ok(Timestamped {
                requested_at: now,
                server_time: self.0.now(),
                value: LimitOwner::SourceAddress,
            });
        }
        let ask = CoderCall::user();
        let told = self.send_counted(&all, asker, &ask, &place).await?;
        Ok(told.map(|user| LimitOwner::User(user.id)))
    }
}

/// Whether the call that is wanted may fare better than the one that asked who we are. A token that is
/// refused is refused everywhere, and after a 429 the object makes no call.
fn is_transient(class: CallErrorClass) -> bool {
    !matches!(class, CallErrorClass::Token | CallErrorClass::Limited)
}

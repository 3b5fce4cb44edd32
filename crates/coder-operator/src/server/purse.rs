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
use crate::identity::{LimitOwner, counts_users};
use crate::pushback::Pushback;

/// Name of the combined read of version and user, which has no single path.
const IDENTITY: &str = "identity";
const HOUR: Duration = Duration::from_secs(3600);
/// It is asked again after an hour; an earlier response is for those who ask meanwhile.
const LATELY: Duration = Duration::from_secs(1800);

impl ServerClient {
    /// What a call spends from. A future of its own: looks need a purse, and this is a look.
    pub(super) fn purse<'a>(
        &'a self,
        asker: &'a Caller<'a>,
    ) -> BoxFuture<'a, Result<IdentityLimits, Pushback>> {
        async move {
            let whose = self.whose(asker).await?;
            Ok(self.0.purse(&whose))
        }
        .boxed()
    }

    async fn whose(&self, asker: &Caller<'_>) -> Result<LimitOwner, Pushback> {
        let now = Instant::now();
        if let Some(whose) = self.0.known(|known| known.believed(now)) {
            return Ok(whose);
        }
        let begin = |owned: OwnedCaller| {
            let server = self.clone();
            async move { server.identify(&owned.asker()).await }.boxed()
        };
        let table = &self.0.looks.identity;
        let fresh = MaxAge::Within(LATELY);
        let at = (CoderEndpoint::User, IDENTITY);
        match self.look(table, asker, at, fresh, begin).await {
            Ok(told) => {
                let whose = told.value.clone();
                self.0.known(|known| known.learned(whose.clone(), now));
                Ok(whose)
            }
            Err(Pushback::Refused(error)) if is_passing(error.class) => {
                Ok(self.0.known(|known| known.failed(now)))
            }
            Err(pushback) => Err(pushback),
        }
    }

    async fn identify(&self, asker: &Caller<'_>) -> Result<Timestamped<LimitOwner>, Pushback> {
        let (all, place) = (self.0.purse(&LimitOwner::Everybody), self.place(IDENTITY));
        let now = Instant::now();
        let by_user = match self.0.site.by_user(now.checked_sub(HOUR)) {
            Some(by_user) => by_user,
            None => {
                let ask = CoderCall::build_info();
                let told = self.spend(&all, asker, &ask, &place).await?;
                let by_user = counts_users(&told.value.version);
                self.0.site.learned(by_user, now);
                by_user
            }
        };
        if !by_user {
            return Ok(Timestamped {
                at: now,
                by_server: self.0.now(),
                value: LimitOwner::Everybody,
            });
        }
        let ask = CoderCall::user();
        let told = self.spend(&all, asker, &ask, &place).await?;
        Ok(told.map(|user| LimitOwner::User(user.id)))
    }
}

/// Whether the call that is wanted may fare better than the one that asked who we are. A token that is
/// refused is refused everywhere, and after a 429 the object makes no call.
fn is_passing(class: CallErrorClass) -> bool {
    !matches!(class, CallErrorClass::Token | CallErrorClass::Limited)
}

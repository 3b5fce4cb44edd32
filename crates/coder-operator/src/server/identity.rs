//! Which identity's rate limit a token uses: the server's version and the token's user, cached for an
//! hour.
//!
//! Since 2.32 the server counts by user: two tokens of one user share a limit. Earlier versions
//! count by address, so that all tokens share one. The two reads count against the shared limit. If
//! they fail, the token has its own limit until they succeed.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::client::IdentityLimits;
use super::reads::OwnedCaller;
use super::{Caller, MaxAge, ServerClient, Timestamped};
use crate::blocked::Pushback;
use crate::client::{CallErrorClass, CoderCall, CoderEndpoint};

/// How long the identity is cached.
const IDENTITY_TTL: Duration = Duration::from_secs(3600);
/// Maximum age of a read of it that another caller started.
const IDENTITY_MAX_AGE: Duration = Duration::from_secs(1800);
/// Name of the combined read of version and user, which has no single path.
const IDENTITY_PATH: &str = "identity";
/// When it is read again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// The first version that counts by user and supports the bypass header.
const PER_USER_SINCE: (u32, u32) = (2, 32);

/// The identity whose rate limit applies at one server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LimitOwner {
    /// Shared by all calls from this address.
    SourceAddress,
    /// A user's own.
    User(String),
    /// Unknown: the token counts as its own identity, by its fingerprint.
    Token(String),
}

impl LimitOwner {
    /// Its name for people.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::SourceAddress => "all".to_owned(),
            Self::User(id) => id.clone(),
            Self::Token(fingerprint) => format!("token-{fingerprint}"),
        }
    }
}

/// Whether a server of this version counts by user. A version that cannot be parsed counts as a new
/// one.
pub(crate) fn limits_per_user(version: &str) -> bool {
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut next = || numbers.next()?.parse::<u32>().ok();
    match (next(), next()) {
        (Some(major), Some(minor)) if major > 0 => (major, minor) >= PER_USER_SINCE,
        _ => true,
    }
}

/// The identity of one token.
#[derive(Debug)]
pub(crate) struct IdentityCache {
    fingerprint: String,
    owner: Option<LimitOwner>,
    refresh_at: Option<Instant>,
}

impl IdentityCache {
    pub(crate) fn new(fingerprint: String) -> Self {
        Self {
            fingerprint,
            owner: None,
            refresh_at: None,
        }
    }

    /// The cached identity, unless it has to be read now.
    pub(crate) fn fresh_owner(&self, now: Instant) -> Option<LimitOwner> {
        self.refresh_at.filter(|at| now < *at).map(|_| self.owner())
    }

    /// The server returned the identity.
    pub(crate) fn set_owner(&mut self, whose: LimitOwner, now: Instant) {
        self.owner = Some(whose);
        self.refresh_at = Some(now + IDENTITY_TTL);
    }

    /// The read failed. A cached identity is kept longer.
    pub(crate) fn record_failure(&mut self, now: Instant) -> LimitOwner {
        self.refresh_at = Some(now + RETRY_INTERVAL);
        self.owner()
    }

    fn owner(&self) -> LimitOwner {
        let own = || LimitOwner::Token(self.fingerprint.clone());
        self.owner.clone().unwrap_or_else(own)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_counts_by_user_since_2_32() {
        for (version, by_user) in [
            ("v2.29.5+abc", false),
            ("v2.30.0", false),
            ("2.31.9", false),
            ("v2.32.0-rc.1+0d2d1c8", true),
            ("v2.36.1", true),
            ("v3.0.0", true),
            ("v1.44.6", false),
            ("v0.0.0-devel+0d2d1c8", true),
            ("main", true),
            ("", true),
        ] {
            assert_eq!(limits_per_user(version), by_user, "{version}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_identity_is_read_once_an_hour_and_sooner_after_a_failure() {
        let start = Instant::now();
        let mut known = IdentityCache::new("abc".to_owned());
        assert_eq!(known.fresh_owner(start), None);
        let own = LimitOwner::Token("abc".to_owned());
        assert_eq!(known.record_failure(start), own);
        assert_eq!(known.fresh_owner(start + RETRY_INTERVAL / 2), Some(own));
        assert_eq!(known.fresh_owner(start + RETRY_INTERVAL), None);
        let user = LimitOwner::User("u-1".to_owned());
        known.set_owner(user.clone(), start);
        assert_eq!(known.fresh_owner(start + IDENTITY_TTL / 2), Some(user.clone()));
        assert_eq!(known.fresh_owner(start + IDENTITY_TTL), None);
        assert_eq!(known.record_failure(start + IDENTITY_TTL), user, "still believed");
    }
}

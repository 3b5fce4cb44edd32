//! Access to the provider: one account per token, whose rate limiter and cache all users of the token share.
//!
//! Only this module may use [`client`]. It sends calls through the rate limiter and under the lease, and returns their
//! results. It does not decide or retry.

mod account;
mod cache;
mod call;
pub mod client;
mod error;
pub mod forecast;
pub mod model;
mod read_throttle;
mod refresh;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aplomb::ratelimit::LimiterRegistry;
use aplomb::{Clock, ObjectKey, Telemetry};
use aplomb_http_client::{ApiToken, Transport};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::telemetry::EgressMetrics;

pub use account::HcloudAccount;
pub use error::HcloudError;

/// Creates the transport to the provider; called once per account.
pub type HcloudConnectFn = Arc<dyn Fn() -> Transport + Send + Sync>;

#[derive(Clone)]
pub struct HcloudSettings {
    /// URL of the provider's API, [`client::ENDPOINT`] in production.
    pub endpoint: String,
    pub connect: HcloudConnectFn,
    pub telemetry: Telemetry,
    pub egress: EgressMetrics,
    /// Wall clock for responses that have no `Date` header.
    pub clock: Clock,
    /// Where the rate limiters are listed for inspection.
    pub budgets: LimiterRegistry,
}

/// All tokens of this process. Cheap to clone.
#[derive(Clone)]
pub struct HcloudAccounts(Arc<Inner>);

struct Inner {
    settings: HcloudSettings,
    started: Instant,
    /// Keyed by a digest of the token.
    accounts: Mutex<BTreeMap<[u8; 32], HcloudAccount>>,
}

impl HcloudAccounts {
    /// No accounts yet.
    #[must_use]
    pub fn new(settings: HcloudSettings) -> Self {
        Self(Arc::new(Inner {
            settings,
            started: Instant::now(),
            accounts: Mutex::default(),
        }))
    }

    /// The account of a token; `who` stops using any other account. Equal tokens share an account, wherever they were
    /// read from. `label` names the source in metrics and logs: the first one is kept, and it must not contain a
    /// secret.
    #[must_use]
    pub fn account_for(&self, who: &ObjectKey, token: &ApiToken, label: &str) -> HcloudAccount {
        let digest = token.digest();
        let mut accounts = self.0.accounts.lock();
        // Drop accounts without users: their token was replaced.
        accounts.retain(|other, account| {
            *other == digest || {
                account.remove(who);
                account.is_used()
            }
        });
        let made = || HcloudAccount::new(&self.0.settings, self.0.started, token.clone(), label);
        accounts.entry(digest).or_insert_with(made).clone()
    }

    /// `who` stops using all accounts.
    pub fn remove(&self, who: &ObjectKey) {
        for account in self.0.accounts.lock().values() {
            account.remove(who);
        }
    }

    /// The clock of [`crate::egress::ObservedFloatingIp`] and similar times: time since this process started.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.0.started.elapsed()
    }
}

impl fmt::Debug for HcloudAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.accounts.lock().values()).finish()
    }
}

impl fmt::Debug for HcloudSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HcloudSettings")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

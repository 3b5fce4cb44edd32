//! The provider as the operator sees it: one account per token, with one budget and one listing for
//! everybody who shares it.
//!
//! Nothing but this module may call [`crate::client`]. It makes calls, each in its turn and under the
//! lease, and says what came of them; it decides nothing and tries nothing a second time.

mod account;
mod call;
mod cache;
mod refresh;
mod quota;
mod read_throttle;
mod error;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::budget::LimiterRegistry;
use aplomb::{Clock, ObjectKey, Telemetry};
use tokio::time::Instant;

use crate::client::ApiToken;
use crate::telemetry::EgressMetrics;
use aplomb_http_client::Transport;

pub use account::HcloudAccount;

/// Makes the way to the provider; called once per account.
pub type HcloudConnectFn = Arc<dyn Fn() -> Transport + Send + Sync>;

/// What all accounts have in common.
#[derive(Clone)]
pub struct HcloudSettings {
    /// Where the provider is, [`crate::client::ENDPOINT`] in production.
    pub endpoint: String,
    /// The way there.
    pub connect: HcloudConnectFn,
    /// Where budgets report.
    pub telemetry: Telemetry,
    /// Where calls and forecasts are reported.
    pub egress: EgressMetrics,
    /// For answers that speak of wall time and carry none.
    pub clock: Clock,
    /// Where the budgets are shown.
    pub budgets: LimiterRegistry,
}

/// Every token of this process. Cheap to clone.
#[derive(Clone)]
pub struct HcloudAccounts(Arc<Inner>);

struct Inner {
    settings: HcloudSettings,
    started: Instant,
    /// By a digest of the token.
    accounts: Mutex<BTreeMap<[u8; 32], HcloudAccount>>,
}

impl HcloudAccounts {
    /// None yet.
    #[must_use]
    pub fn new(settings: HcloudSettings) -> Self {
        Self(Arc::new(Inner {
            settings,
            started: Instant::now(),
            accounts: Mutex::default(),
        }))
    }

    /// The account of a token, for somebody who uses no other from now on: the same for the same
    /// token, wherever it was read from. `label` says where, in metrics and logs: the first one
    /// counts, and it holds no secret.
    #[must_use]
    pub fn account_for(&self, who: &ObjectKey, token: &ApiToken, label: &str) -> HcloudAccount {
        let digest = token.digest();
        let mut accounts = self.accounts();
        // A token that was replaced has nobody left in the end.
        accounts.retain(|other, account| {
            *other == digest || {
                account.remove(who);
                account.is_used()
            }
        });
        let made = || HcloudAccount::new(&self.0.settings, self.0.started, token.clone(), label);
        accounts.entry(digest).or_insert_with(made).clone()
    }

    /// Somebody asks for nothing any more, with whatever token.
    pub fn remove(&self, who: &ObjectKey) {
        for account in self.accounts().values() {
            account.remove(who);
        }
    }

    /// The time that [`crate::world::ObservedFloatingIp`] and its like are told in.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn accounts(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u8; 32], HcloudAccount>> {
        self.0
            .accounts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HcloudAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.accounts().values()).finish()
    }
}

impl fmt::Debug for HcloudSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

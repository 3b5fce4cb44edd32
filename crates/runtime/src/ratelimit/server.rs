//! The budgets of an API server, for engines of one process that share its credential.

use super::{LimitConfig, RateLimiter};
use crate::clock::Clock;
use crate::telemetry::Telemetry;

/// What may be spent on one API server. Clones share it.
///
/// A refusal of our work says nothing about leases, which servers treat apart: were they to share a budget, one
/// long Retry-After would cost the lead.
#[derive(Clone, Debug)]
pub struct ApiServerLimits {
    pub(crate) work: RateLimiter,
    pub(crate) leases: RateLimiter,
}

impl ApiServerLimits {
    /// Two full budgets of the same size.
    #[must_use]
    pub fn new(config: &LimitConfig, telemetry: &Telemetry, clock: &Clock) -> Self {
        let budget = |name| RateLimiter::new(name, config.clone(), telemetry.clone(), clock.clone());
        Self {
            work: budget("apiserver"),
            leases: budget("apiserver-lease"),
        }
    }
}

//! One token: its rate limiter, the cache of what was read with it, and its calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::ratelimit::RateLimiter;
use aplomb::{Clock, ObjectKey, SingleFlight};
use aplomb_api::egress::{FloatingIpRef, labels};
use aplomb_http_client::ApiToken;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::HcloudSettings;
use super::cache::{FloatingIpCache, FloatingIpSelector, ReadMark, ReadPlan};
use super::call::{CallPurpose, limit_config};
use super::client::HcloudClient;
use super::error::CallFailure;
use super::forecast::{BudgetForecast, BudgetForecaster};
use super::model::{HcloudAction, HcloudActionStatus};
use super::read_throttle::ReadThrottle;
use crate::egress::{ActionState, ObservedAction, ObservedFloatingIp, ProviderTrouble, RemainingCalls};
use crate::telemetry::{EgressMetrics, HcloudOperation};

/// Shortest and longest pause between two attempts in seconds, for any refill rate.
const RETRY_BOUNDS: (f64, f64) = (0.25, 5.0);

/// One token. Cheap to clone; clones share the account.
#[derive(Clone)]
pub struct HcloudAccount(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) label: String,
    pub(super) budget: RateLimiter,
    pub(super) client: HcloudClient,
    started: Instant,
    pub(super) clock: Clock,
    pub(super) egress: EgressMetrics,
    state: Mutex<State>,
    /// Reads in flight, keyed by number of writes, purpose and plan.
    pub(super) flight: SingleFlight<(u64, CallPurpose, ReadPlan), Result<(), ProviderTrouble>>,
}

pub(super) struct State {
    pub(super) cache: FloatingIpCache,
    pub(super) throttle: ReadThrottle,
    pub(super) forecaster: BudgetForecaster,
    /// The last failed read, and its time.
    pub(super) last_failure: Option<(Duration, ProviderTrouble)>,
    /// Calls of this process since the provider last reported the remaining calls.
    pub(super) own_calls: u32,
    rng: fastrand::Rng,
}

impl HcloudAccount {
    pub(super) fn new(settings: &HcloudSettings, started: Instant, token: ApiToken, label: &str) -> Self {
        let name = format!("hetzner/{label}");
        let telemetry = settings.telemetry.clone();
        let budget = RateLimiter::new(&name, limit_config(), telemetry, settings.clock.clone());
        settings.budgets.add(budget.clone());
        let seed = label
            .bytes()
            .fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self(Arc::new(Inner {
            label: label.to_owned(),
            budget,
            client: HcloudClient::new((settings.connect)(), &settings.endpoint, token),
            started,
            clock: settings.clock.clone(),
            egress: settings.egress.clone(),
            state: Mutex::new(State {
                cache: FloatingIpCache::default(),
                throttle: ReadThrottle::default(),
                forecaster: BudgetForecaster::default(),
                last_failure: None,
                own_calls: 0,
                rng: fastrand::Rng::with_seed(seed),
            }),
            flight: SingleFlight::new(Duration::ZERO, 8),
        }))
    }

    /// The last known state of a floating IP, of any age. Makes no call.
    #[must_use]
    pub fn last_seen(&self, asked: &FloatingIpRef) -> Option<ObservedFloatingIp> {
        self.with_state(|state| state.cache.last_seen(&asked.into()))
    }

    /// Whether `other` is the same account.
    pub(crate) fn same_account(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// `who` stops using this account.
    pub fn remove(&self, who: &ObjectKey) {
        self.with_state(|state| state.cache.remove_interest(who));
    }

    /// The rate limit as the provider last reported it.
    #[must_use]
    pub fn remaining(&self) -> Option<RemainingCalls> {
        self.with_state(|state| state.throttle.remaining())
    }

    /// Estimated spending of other clients and when the limit will be exhausted.
    #[must_use]
    pub fn forecast(&self) -> Option<BudgetForecast> {
        let now = self.now();
        self.with_state(|state| state.forecaster.forecast(now))
    }

    /// Interval of routine reads where `every` was configured: longer when few calls remain.
    #[must_use]
    pub fn read_interval(&self, every: Duration) -> Duration {
        let now = self.now();
        self.with_state(|state| state.read_interval(every, now))
    }

    /// The earliest time for a routine read, in the time of [`super::HcloudAccounts::uptime`]. `None` if one may be
    /// made now.
    #[must_use]
    pub fn next_read_at(&self) -> Option<Duration> {
        let now = self.now();
        self.with_state(|state| state.next_read_at(now))
    }

    /// How long a throttled move waits before the next attempt: the time until the bucket gains one token, plus up to
    /// half of it as jitter, because other clients wait for the same token. It does not grow: the time to the next
    /// token is constant.
    #[must_use]
    pub fn retry_delay(&self) -> Duration {
        let now = self.now();
        self.with_state(|state| {
            let forecast = state.forecaster.forecast(now);
            let tick = forecast.map_or(1.0, |forecast| 1.0 / forecast.refill.max(f64::EPSILON));
            let tick = tick.clamp(RETRY_BOUNDS.0, RETRY_BOUNDS.1);
            Duration::from_secs_f64(tick * (1.0 + state.rng.f64() / 2.0))
        })
    }

    /// Assigns a floating IP to a server. The returned action may still be running. If the floating IP is assigned
    /// there already, the call succeeds with action id 0.
    ///
    /// # Errors
    /// After [`ProviderTrouble::Unreachable`] the assignment may have happened: read before repeating it.
    pub async fn assign(
        &self,
        floating_ip: i64,
        server: i64,
        deadline: Instant,
        fence: &Fence,
    ) -> Result<ObservedAction, ProviderTrouble> {
        let send = |client: HcloudClient| async move { client.assign(floating_ip, server).await };
        let terms = (CallPurpose::Move, deadline, fence);
        let answer = self.call(HcloudOperation::Assign, terms, send).await;
        if answer.as_ref().map_or_else(CallFailure::is_ambiguous, |_| true) {
            self.with_state(|state| state.cache.invalidate());
        }
        let now = self.now();
        let seen = |id, state| ObservedAction {
            id,
            state,
            accepted_at: now,
            polled_at: now,
            polls: 0,
        };
        match answer {
            Ok(begun) => Ok(seen(begun.body.id, action_state(begun.body))),
            Err(failure) if failure.is_already_assigned() => {
                self.with_state(|state| state.cache.invalidate());
                Ok(seen(0, ActionState::Success))
            }
            Err(failure) => {
                let trouble = failure.into_assign_trouble();
                if trouble == ProviderTrouble::NotFound {
                    let (which, mark) = (FloatingIpSelector::Id(floating_ip), self.read_mark());
                    self.with_state(|state| state.cache.record_absent(which, mark));
                }
                Err(trouble)
            }
        }
    }

    /// Reads the state of an action. Once it has ended, cached reads are discarded.
    ///
    /// # Errors
    /// Why the call failed; [`ProviderTrouble::NotFound`] if the action no longer exists, which means that it has
    /// ended.
    pub async fn poll_action(
        &self,
        action: i64,
        deadline: Instant,
        fence: &Fence,
    ) -> Result<ActionState, ProviderTrouble> {
        let send = |client: HcloudClient| async move { client.action(action).await };
        let terms = (CallPurpose::Move, deadline, fence);
        let answer = self.call(HcloudOperation::Action, terms, send).await;
        let state = answer.map(|answer| action_state(answer.body));
        let state = state.map_err(ProviderTrouble::from);
        let over = match &state {
            Ok(state) => *state != ActionState::Running,
            Err(trouble) => *trouble == ProviderTrouble::NotFound,
        };
        if over {
            self.with_state(|state| state.cache.invalidate());
        }
        state
    }

    /// Writes a leader's term to a floating IP and keeps its other labels. The provider replaces all labels at once
    /// without a precondition: a label that another client adds in between is lost.
    ///
    /// # Errors
    /// Why the write failed.
    pub async fn write_term(
        &self,
        seen: &ObservedFloatingIp,
        term: u64,
        deadline: Instant,
        fence: &Fence,
    ) -> Result<(), ProviderTrouble> {
        let (id, terms) = (seen.id, (CallPurpose::Move, deadline, fence));
        let known = self.with_state(|state| state.cache.labels(id));
        let mut wanted = match known {
            Some(labels) => labels,
            None => {
                let read = |client: HcloudClient| async move { client.floating_ip(id).await };
                self.call(HcloudOperation::Get, terms, read).await?.body.labels
            }
        };
        wanted.insert(labels::TERM.to_owned(), term.to_string());
        let mark = self.read_mark();
        let write = |client: HcloudClient| async move { client.update_labels(id, &wanted).await };
        let written = self.call(HcloudOperation::Label, terms, write).await?.body;
        if written.labels.get(labels::TERM) != Some(&term.to_string()) {
            // Accepted but not stored: ignore the rest of the response; the next read is due as usual.
            return Err(ProviderTrouble::Refused("no_effect".to_owned()));
        }
        self.with_state(|state| state.cache.store_one(written, mark));
        Ok(())
    }

    pub(super) fn read_mark(&self) -> ReadMark {
        let now = self.now();
        self.with_state(|state| state.cache.read_mark(now))
    }

    pub(super) fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// Whether the account has users, or is about to have one.
    pub(super) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.with_state(|state| state.cache.is_wanted())
    }

    pub(super) fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.state.lock())
    }
}

impl State {
    fn read_interval(&self, every: Duration, now: Duration) -> Duration {
        self.throttle.read_interval(every, self.expected_remaining(now))
    }

    pub(super) fn next_read_at(&self, now: Duration) -> Option<Duration> {
        self.throttle.next_read_at(now, self.expected_remaining(now))
    }

    pub(super) fn is_scarce(&self, now: Duration) -> bool {
        self.throttle.is_scarce(self.expected_remaining(now))
    }

    fn expected_remaining(&self, now: Duration) -> Option<f64> {
        let forecast = self.forecaster.forecast(now);
        forecast.map(|forecast| forecast.remaining)
    }
}

fn action_state(action: HcloudAction) -> ActionState {
    match action.status {
        HcloudActionStatus::Running => ActionState::Running,
        HcloudActionStatus::Success => ActionState::Success,
        HcloudActionStatus::Error => {
            let code = action.error.map(|error| error.code).unwrap_or_default();
            ActionState::Error(code)
        }
    }
}

impl fmt::Debug for HcloudAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HcloudAccount").field(&self.0.label).finish()
    }
}

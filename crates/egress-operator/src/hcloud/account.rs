//! One token: its budget, what was seen with it, and the calls that are made with it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::budget::RateLimiter;
use aplomb::fence::Fence;
use aplomb::{Clock, ObjectKey, SingleFlight};
use aplomb_api::egress::{FloatingIpRef, labels};
use tokio::time::Instant;

use super::HcloudSettings;
use super::call::{CallPurpose, limit_config};
use super::known::{FloatingIpCache, FloatingIpSelector, ReadMark, ReadPlan};
use super::thrift::ReadThrottle;
use super::trouble::CallFailure;
use crate::client::{ApiToken, HcloudAction, HcloudActionStatus, HcloudClient};
use crate::forecast::{BudgetForecast, BudgetForecaster};
use crate::telemetry::{EgressMetrics, HcloudOperation};
use crate::world::{
    ActionState, ObservedAction, ObservedFloatingIp, ProviderTrouble, RemainingCalls,
};

/// How fast an attempt may follow another, and how slow, whatever the refill.
const RETRY_BOUNDS: (f64, f64) = (0.25, 5.0);

/// One token. Cheap to clone; clones are the same account.
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
    /// Reads under way: after how many writes, what for, of what.
    pub(super) flight: SingleFlight<(u64, CallPurpose, ReadPlan), Result<(), ProviderTrouble>>,
}

pub(super) struct State {
    pub(super) cache: FloatingIpCache,
    pub(super) throttle: ReadThrottle,
    pub(super) forecaster: BudgetForecaster,
    /// The last look that failed, and when.
    pub(super) last_failure: Option<(Duration, ProviderTrouble)>,
    /// Calls of ours since the provider last said what is left.
    pub(super) own_calls: u32,
    rng: fastrand::Rng,
}

impl HcloudAccount {
    pub(super) fn new(
        settings: &HcloudSettings,
        started: Instant,
        token: ApiToken,
        label: &str,
    ) -> Self {
        let name = format!("hetzner/{label}");
        let telemetry = settings.telemetry.clone();
        let budget = RateLimiter::new(&name, limit_config(), telemetry, settings.clock.clone());
        settings.budgets.add(budget.clone());
        let seed = label.bytes().fold(0, |seed: u64, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
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

    /// What was seen last of a floating IP, however long ago. No call.
    #[must_use]
    pub fn last_seen(&self, asked: &FloatingIpRef) -> Option<ObservedFloatingIp> {
        self.with_state(|state| state.cache.last_seen(&asked.into()))
    }

    /// Whether it is the account of the same token.
    pub(crate) fn same_account(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Somebody asks for nothing any more.
    pub fn remove(&self, who: &ObjectKey) {
        self.with_state(|state| state.cache.remove_interest(who));
    }

    /// What the provider said last of its rate limit.
    #[must_use]
    pub fn remaining(&self) -> Option<RemainingCalls> {
        self.with_state(|state| state.throttle.remaining())
    }

    /// What others spend and when the limit is used up, from what the provider has said.
    #[must_use]
    pub fn forecast(&self) -> Option<BudgetForecast> {
        let now = self.now();
        self.with_state(|state| state.forecaster.forecast(now))
    }

    /// How often to look for somebody who asked for `every`: more rarely when little is left.
    #[must_use]
    pub fn read_interval(&self, every: Duration) -> Duration {
        let now = self.now();
        self.with_state(|state| state.read_interval(every, now))
    }

    /// When a look that can wait may be made, in the time of [`super::HcloudAccounts::uptime`], if not now.
    #[must_use]
    pub fn next_read_at(&self) -> Option<Duration> {
        let now = self.now();
        self.with_state(|state| state.next_read_at(now))
    }

    /// How long a move that was throttled waits before it tries again: as long as it takes until the
    /// bucket has one more token, and up to half of that more, because whoever else waits for that
    /// token may keep time with us. It does not grow: the next token is always as near.
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

    /// Moves a floating IP. What is returned may be only begun. One that is there already is a
    /// success without an action: its id is 0.
    ///
    /// # Errors
    /// With [`Trouble::Unreachable`] it may have happened all the same: look before it is repeated.
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
        if answer
            .as_ref()
            .map_or_else(CallFailure::is_ambiguous, |_| true)
        {
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

    /// Asks how an action stands. When it has ended, what was seen before counts no more.
    ///
    /// # Errors
    /// What kept the question from being answered; [`Trouble::NotFound`] if nobody knows the action
    /// any more, which has ended then.
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

    /// Writes a leader's term on a floating IP, beside the labels it has. The provider replaces all
    /// labels at once and compares nothing: one that somebody else adds in between is lost.
    ///
    /// # Errors
    /// What kept it from being written.
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
                self.call(HcloudOperation::Get, terms, read)
                    .await?
                    .body
                    .labels
            }
        };
        wanted.insert(labels::TERM.to_owned(), term.to_string());
        let mark = self.read_mark();
        let write = |client: HcloudClient| async move { client.update_labels(id, &wanted).await };
        let written = self.call(HcloudOperation::Label, terms, write).await?.body;
        if written.labels.get(labels::TERM) != Some(&term.to_string()) {
            // Accepted and not kept: what else the answer says is not believed, and a look is due as ever.
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

    /// Whether anybody asks for anything, or is about to.
    pub(super) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.with_state(|state| state.cache.is_wanted())
    }

    pub(super) fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
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
        f.debug_tuple("Account").field(&self.0.label).finish()
    }
}

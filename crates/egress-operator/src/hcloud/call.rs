//! One call with one token: its turn, the lease, the request, and what its answer says of the rate limit.

use std::time::Duration;

use aplomb::budget::{HETZNER, LimitConfig, LimitLane, LimitLaneConfig, Permit};
use aplomb::fence::Fence;
use http::HeaderMap;
use tokio::time::Instant;

use super::account::HcloudAccount;
use super::quota;
use super::trouble::CallFailure;
use crate::client::{self, HcloudClient, HcloudResponse};
use crate::forecast::BudgetSample;
use crate::telemetry::{ForecastReported, HcloudOperation, ProviderCall};
use crate::world::RESERVE;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallPurpose {
    /// A move, or what it cannot do without. It may spend everything.
    Move,
    /// A look that can wait. It never takes the reserve.
    Read,
    /// A look that is let through although nothing is to spare, to learn whether there is more
    /// again. It takes what it takes from the reserve.
    Probe,
}

impl CallPurpose {
    fn lane(self) -> LimitLane {
        match self {
            Self::Move | Self::Probe => LimitLane(0),
            Self::Read => LimitLane(1),
        }
    }

    /// What a request says of itself, to metrics and to logs on the other side.
    fn as_str(self) -> &'static str {
        match self {
            Self::Move => "failover",
            Self::Read => "routine",
            Self::Probe => "probe",
        }
    }
}

/// An answer that takes longer is not worth waiting for: a move has better things to try.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// What for, until when, and by which right.
pub(super) type CallTerms<'a> = (CallPurpose, Instant, &'a Fence);

impl HcloudAccount {
    /// One call: its turn, the lease, the request, and what its answer says of the rate limit.
    pub(super) async fn call<T, F>(
        &self,
        operation: HcloudOperation,
        (purpose, deadline, fence): CallTerms<'_>,
        send: impl FnOnce(HcloudClient) -> F,
    ) -> Result<HcloudResponse<T>, CallFailure>
    where
        F: Future<Output = client::Result<T>>,
    {
        let client = self.0.client.with_lane(purpose.as_str());
        let deadline = deadline.min(Instant::now() + CALL_TIMEOUT);
        let effect = async |permit: Permit| {
            self.with_state(|state| state.own_calls += 1);
            let answer = send(client).await;
            if let Some((status, headers)) = response_headers(&answer) {
                permit.answered(status, headers);
            }
            Ok(answer)
        };
        let (lane, what) = (purpose.lane(), operation.as_str());
        let budget = &self.0.budget;
        let answer = budget.call(lane, deadline, fence, what, effect).await;
        let answer = answer.map_err(CallFailure::Runtime).and_then(|answer| {
            if let Some((status, headers)) = response_headers(&answer) {
                self.learn(status, headers);
            }
            answer.map_err(CallFailure::Provider)
        });
        self.report_call(operation, purpose, &answer);
        answer
    }

    /// Learns what is left.
    fn learn(&self, status: u16, headers: &HeaderMap) {
        let now = self.now();
        let Some(quota) = quota::from_headers(headers, self.0.clock.now()) else {
            return;
        };
        let forecast = self.with_state(|state| {
            // A call that was refused took nothing.
            let refused = u32::from(status == 429);
            let ours = std::mem::take(&mut state.own_calls).saturating_sub(refused);
            state.throttle.record_remaining(quota.seen, now);
            state.forecaster.add_sample(BudgetSample {
                at: now,
                limit: quota.seen.limit,
                remaining: quota.seen.remaining,
                full_in: quota.full_in,
                own_calls: ours,
            });
            state.forecaster.forecast(now)
        });
        if let Some(forecast) = forecast {
            self.0.egress.emit(ForecastReported {
                account: &self.0.label,
                seen: quota.seen,
                others: forecast.other_rate,
                empty: forecast.empty_in,
            });
        }
    }

    fn report_call<T>(
        &self,
        operation: HcloudOperation,
        purpose: CallPurpose,
        answer: &Result<HcloudResponse<T>, CallFailure>,
    ) {
        let status;
        let code = match answer {
            Ok(answer) => {
                status = answer.status.to_string();
                &status
            }
            Err(CallFailure::Provider(error)) => &error.code,
            // It was never sent, and the budget counts that.
            Err(CallFailure::Runtime(error)) if error.class() == aplomb::ErrorClass::Throttled => {
                return;
            }
            Err(CallFailure::Runtime(_)) => client::NO_ANSWER,
        };
        self.0.egress.emit(ProviderCall {
            account: &self.0.label,
            operation,
            code,
            lane: purpose.as_str(),
        });
    }
}

/// A bucket of an hour, of which a move has the last [`RESERVE`]. What the provider says is left takes
/// the place of the burst with the first answer.
pub(super) fn limit_config() -> LimitConfig {
    let lane = |name: &str, reserve, slots| LimitLaneConfig {
        name: name.to_owned(),
        reserve,
        slots,
    };
    LimitConfig {
        rate: 1.0,
        burst: 3600,
        concurrency: 10,
        lanes: vec![lane("failover", RESERVE, 6), lane("routine", 0, 0)],
        dialects: vec![HETZNER],
        ramp: Duration::ZERO,
        longest_wait: Duration::from_secs(3600),
    }
}

fn response_headers<T>(answer: &client::Result<T>) -> Option<(u16, &HeaderMap)> {
    match answer {
        Ok(answer) => Some((answer.status, &answer.headers)),
        Err(error) => Some((error.status?, &error.headers)),
    }
}

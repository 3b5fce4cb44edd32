//! One call with one token: rate limiter, lease, request, and the rate limit in the response.

use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::ratelimit::{HETZNER, LimitConfig, LimitLane, LimitLaneConfig, Permit};
use http::HeaderMap;
use tokio::time::Instant;

use super::account::HcloudAccount;
use super::error::CallFailure;
use super::quota;
use crate::client::{self, HcloudClient, HcloudResponse};
use crate::forecast::BudgetSample;
use crate::telemetry::{ForecastReported, HcloudOperation, ProviderCall};
use crate::world::RESERVE;

/// Purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallPurpose {
    /// A move, or a read it needs. It may use the whole budget.
    Move,
    /// A routine read. It never uses the reserve.
    Read,
    /// A routine read that is let through although only the reserve is left, to learn whether it
    /// has recovered. It is charged to the reserve.
    Probe,
}

impl CallPurpose {
    fn lane(self) -> LimitLane {
        match self {
            Self::Move | Self::Probe => LimitLane(0),
            Self::Read => LimitLane(1),
        }
    }

    /// Purpose as written to metrics and the lane header.
    fn as_str(self) -> &'static str {
        match self {
            Self::Move => "failover",
            Self::Read => "routine",
            Self::Probe => "probe",
        }
    }
}

/// A move has better options than to wait longer than this for a response.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Purpose, deadline and fence of a call.
pub(super) type CallTerms<'a> = (CallPurpose, Instant, &'a Fence);

impl HcloudAccount {
    /// Makes one call: rate limiter, lease, request, and the rate limit in the response.
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
                permit.record_answer(status, headers);
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

    /// Passes the rate limit of a response to the limiter.
    fn learn(&self, status: u16, headers: &HeaderMap) {
        let now = self.now();
        let Some(quota) = quota::from_headers(headers, self.0.clock.now()) else {
            return;
        };
        let forecast = self.with_state(|state| {
            // A refused call was not charged by the provider.
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
            // The call was never sent; the limiter accounts for that.
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

/// An hourly bucket whose last [`RESERVE`] calls are kept for moves. The first response replaces
/// the assumed burst by the reported one.
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
        header_formats: vec![HETZNER],
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

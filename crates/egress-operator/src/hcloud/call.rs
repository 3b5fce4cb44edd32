//! One call with one token: rate limiter, lease, request, and the rate limit in the response.

use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::ratelimit::{HETZNER, LimitConfig, LimitLane, LimitLaneConfig, Permit};
use http::HeaderMap;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use tokio::time::Instant;

use super::account::HcloudAccount;
use super::client::{self, HcloudClient, HcloudResponse};
use super::error::{CallFailure, NO_ANSWER};
use super::forecast::BudgetSample;
use crate::egress::{RESERVE, RemainingCalls};
use crate::telemetry::{ForecastReported, HcloudOperation, ProviderCall};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallPurpose {
    /// A move, or a read it needs. It may use the whole budget.
    Move,
    /// A routine read. It never uses the reserve.
    Read,
    /// A routine read that is let through although only the reserve is left, to learn whether it has recovered. It is
    /// charged to the reserve.
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
        let Some((seen, full_in)) = read_limit(headers, self.0.clock.now()) else {
            return;
        };
        let forecast = self.with_state(|state| {
            // A refused call was not charged by the provider.
            let refused = u32::from(status == 429);
            let ours = std::mem::take(&mut state.own_calls).saturating_sub(refused);
            state.throttle.record_remaining(seen, now);
            state.forecaster.add_sample(BudgetSample {
                at: now,
                limit: seen.limit,
                remaining: seen.remaining,
                full_in,
                own_calls: ours,
            });
            state.forecaster.forecast(now)
        });
        if let Some(forecast) = forecast {
            self.0.egress.emit(ForecastReported {
                account: &self.0.label,
                seen,
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
            Err(CallFailure::Runtime(_)) => NO_ANSWER,
        };
        self.0.egress.emit(ProviderCall {
            account: &self.0.label,
            operation,
            code,
            lane: purpose.as_str(),
        });
    }
}

/// An hourly bucket whose last [`RESERVE`] calls are kept for moves. The first response replaces the assumed burst by
/// the reported one.
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

/// The rate limit in the headers of a response, and when the bucket is full again without further calls, which the
/// provider calls its reset. Implausible values are ignored. `wall` replaces a missing `Date` header; the provider's
/// own date tolerates clock differences.
fn read_limit(headers: &HeaderMap, wall: Timestamp) -> Option<(RemainingCalls, Option<Duration>)> {
    let seen = RemainingCalls {
        limit: header_number(headers, "ratelimit-limit")?,
        remaining: header_number(headers, "ratelimit-remaining")?,
    };
    let reset = header_number(headers, "ratelimit-reset");
    let reset = reset.and_then(|seconds: i64| Timestamp::from_second(seconds).ok());
    let now = header_date(headers).unwrap_or(wall);
    let full_in = reset.and_then(|reset| Duration::try_from(reset.duration_since(now)).ok());
    Some((seen, full_in))
}

fn header_number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn header_date(headers: &HeaderMap) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let text = headers.get(DATE)?.to_str().ok()?;
    PARSER.parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_reset_is_read_against_the_answers_own_date() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("date", "Thu, 08 Jul 2021 18:27:17 GMT"),
            ("ratelimit-limit", "3600"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1625772437"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let (seen, full_in) = read_limit(&headers, Timestamp::UNIX_EPOCH).expect("a rate limit");
        assert_eq!((seen.limit, seen.remaining), (3600, 0));
        assert_eq!(full_in, Some(Duration::from_secs(3600)));
        headers.insert("ratelimit-remaining", HeaderValue::from_static("-1"));
        assert_eq!(read_limit(&headers, Timestamp::UNIX_EPOCH), None);
    }
}

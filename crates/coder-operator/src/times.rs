//! Times at the precision of the status: whole seconds of wall time, so that a value read back
//! equals the value written.

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Rounds to whole seconds, as Kubernetes does; a fraction would differ from what is read back.
pub(crate) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// The time since `then`; zero if that is in the future.
pub(crate) fn elapsed(then: &Time, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then.0)).unwrap_or_default()
}

/// `at` plus `span`.
pub(crate) fn add_span(at: &Time, span: Duration) -> Timestamp {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX / 2);
    at.0.checked_add(seconds.seconds()).unwrap_or(Timestamp::MAX)
}

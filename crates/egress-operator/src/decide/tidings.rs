//! Times and durations at the precision of the status, so that a value read back equals the value
//! written.

use std::time::Duration;

use aplomb_api::DurationString;
use jiff::Timestamp;

/// `moment` as it is written: to the microsecond.
pub(super) fn truncate_micros(moment: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(moment.as_microsecond()).unwrap_or(moment)
}

/// The moment `span` after `moment`.
pub(super) fn add_span(moment: Timestamp, span: Duration) -> Timestamp {
    moment.saturating_add(span).unwrap_or(Timestamp::MAX)
}

/// The duration from `earlier` to `moment`; zero if the clock was set back between them.
pub(super) fn elapsed_between(earlier: Timestamp, moment: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// `duration` as it is written: to the millisecond.
pub(super) fn to_millis_span(duration: Duration) -> DurationString {
    DurationString(Duration::from_millis(
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
    ))
}

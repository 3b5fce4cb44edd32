//! The server's clock, as far as its answers tell. Pure.
//!
//! An answer carries the second in which it was written. Our own clock is moved by no more than it takes
//! to agree with every answer.

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

/// How far the server's clock is ahead of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClockSkew(SignedDuration);

impl ClockSkew {
    /// The server's clock when ours shows `here`.
    pub(super) fn to_server_time(self, here: Timestamp) -> Timestamp {
        here.checked_add(self.0).unwrap_or(here)
    }

    /// An answer to a call that was sent and answered at these times of our clock.
    pub(super) fn learn(&mut self, headers: &HeaderMap, sent: Timestamp, came: Timestamp) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
        let Some(date) = date else {
            return;
        };
        let least = date.duration_since(came);
        let most = date.duration_since(sent) + SignedDuration::from_secs(1);
        // A clock that was set in between makes them cross.
        self.0 = self.0.min(most.max(least)).max(least);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn observe_date(skew: &mut ClockSkew, date: &'static str, here: Timestamp) {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static(date));
        skew.learn(&headers, here, here);
    }

    /// 1625768840 is Thu, 08 Jul 2021 18:27:20 GMT.
    const TWENTY: &str = "Thu, 08 Jul 2021 18:27:20 GMT";

    #[test]
    fn a_clock_that_agrees_is_left_alone() {
        let mut skew = ClockSkew::default();
        let here = second(1_625_768_840) + SignedDuration::from_millis(700);
        observe_date(&mut skew, TWENTY, here);
        assert_eq!(skew.to_server_time(here), here);
    }

    #[test]
    fn a_clock_that_is_off_is_moved_to_the_nearest_that_agrees() {
        let mut skew = ClockSkew::default();
        observe_date(&mut skew, TWENTY, second(1_625_768_810));
        assert_eq!(skew.to_server_time(second(1_625_768_810)), second(1_625_768_840));
        observe_date(&mut skew, TWENTY, second(1_625_768_850));
        assert_eq!(skew.to_server_time(second(1_625_768_850)), second(1_625_768_841));
    }

    #[test]
    fn an_invalid_date_is_ignored() {
        let mut skew = ClockSkew::default();
        for date in ["", "yesterday", "1625768840"] {
            observe_date(&mut skew, date, second(0));
        }
        assert_eq!(skew, ClockSkew::default());
    }
}

//! The rate limit in the headers of a response. Implausible values are ignored.

use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use crate::world::RemainingCalls;

/// The rate limit of a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quota {
    pub(super) seen: RemainingCalls,
    /// When the bucket is full again without further calls; the provider calls this its reset.
    pub(super) full_in: Option<Duration>,
}

/// Reads a response. `wall` replaces a missing `Date` header; the provider's own date tolerates
/// clock differences.
pub(super) fn from_headers(headers: &HeaderMap, wall: Timestamp) -> Option<Quota> {
    let seen = RemainingCalls {
        limit: header_number(headers, "ratelimit-limit")?,
        remaining: header_number(headers, "ratelimit-remaining")?,
    };
    let reset = header_number(headers, "ratelimit-reset");
    let reset = reset.and_then(|seconds: i64| Timestamp::from_second(seconds).ok());
    let now = header_date(headers).unwrap_or(wall);
    let full_in = reset.and_then(|reset| Duration::try_from(reset.duration_since(now)).ok());
    Some(Quota { seen, full_in })
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
        let quota = from_headers(&headers, Timestamp::UNIX_EPOCH).expect("a quota");
        assert_eq!((quota.seen.limit, quota.seen.remaining), (3600, 0));
        assert_eq!(quota.full_in, Some(Duration::from_secs(3600)));
        headers.insert("ratelimit-remaining", HeaderValue::from_static("-1"));
        assert_eq!(from_headers(&headers, Timestamp::UNIX_EPOCH), None);
    }
}

//! What an answer says of the rate limit. Reads headers; decides nothing.

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Upper bound of any hint: even if a server requests more, it is called again after this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The three headers of coderd's limiter. They come together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowHeaders {
    /// Calls a minute.
    pub(crate) limit: u32,
    /// The limit less the rounded rate after this call. Below zero where others have spent more.
    pub(crate) remaining: i64,
    /// The second of the server's clock in which the current window ends.
    pub(crate) reset: i64,
}

/// An answer, as far as the budget cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The status.
    pub(crate) status: u16,
    /// What the limiter says, if it has spoken.
    pub(crate) reading: Option<WindowHeaders>,
    /// The second of the server's clock when it answered.
    pub(crate) date: Option<i64>,
    /// How long it asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

impl Hint {
    /// Reads an answer that came at `wall` by our own clock, which is only for an answer without a date.
    pub(crate) fn from_response(status: u16, headers: &HeaderMap, wall: Timestamp) -> Self {
        let date = header_text(headers, DATE.as_str()).and_then(parse_http_date);
        Self {
            status,
            reading: window_headers(headers),
            date,
            retry_after: retry_after(headers, date.unwrap_or(wall.as_second())),
        }
    }

    /// Whether the limiter has refused.
    pub(crate) fn is_limited(&self) -> bool {
        self.status == 429
    }

    /// Whether a limiter stands in front of this path: an answer of the server itself, with no word of
    /// one, says that there is none. An error page of something in between says nothing.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.reading.is_none() && (200..400).contains(&self.status)
    }

    /// Whether the call was turned away before the limiter counted it.
    pub(crate) fn is_uncounted(&self) -> bool {
        self.is_limited() || (matches!(self.status, 412 | 428) && self.reading.is_none())
    }
}

fn window_headers(headers: &HeaderMap) -> Option<WindowHeaders> {
    let number = |name| header_text(headers, name)?.parse::<i64>().ok();
    let limit = u32::try_from(number("x-ratelimit-limit")?).ok()?;
    Some(WindowHeaders {
        limit: limit.max(1),
        remaining: number("x-ratelimit-remaining")?,
        reset: number("x-ratelimit-reset")?,
    })
}

fn retry_after(headers: &HeaderMap, date: i64) -> Option<Duration> {
    let text = header_text(headers, RETRY_AFTER.as_str())?;
    let wait = match text.parse::<i64>() {
        Ok(seconds) => seconds,
        Err(_) => parse_http_date(text)?.saturating_sub(date),
    };
    let wait = u64::try_from(wait).ok().filter(|wait| *wait > 0)?;
    Some(Duration::from_secs(wait).min(MAX_RETRY_AFTER))
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn parse_http_date(date: &str) -> Option<i64> {
    const PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(date).ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    fn wall() -> Timestamp {
        Timestamp::from_second(1_625_768_837).expect("a moment")
    }

    #[test]
    fn all_three_headers_make_a_reading_and_two_do_not() {
        let all = [
            ("x-ratelimit-limit", "512"),
            ("x-ratelimit-remaining", "-3"),
            ("x-ratelimit-reset", "1625768849"),
        ];
        let read = Hint::from_response(200, &headers(&all), wall());
        let expected = WindowHeaders {
            limit: 512,
            remaining: -3,
            reset: 1_625_768_849,
        };
        assert_eq!(read.reading, Some(expected));
        let two = Hint::from_response(200, &headers(&all[..2]), wall());
        assert_eq!((two.reading, two.is_unlimited()), (None, true));
    }

    #[test]
    fn a_retry_after_may_be_seconds_or_a_date() {
        let after =
            |pairs: &[(&'static str, &'static str)]| Hint::from_response(429, &headers(pairs), wall()).retry_after;
        let minute = Some(Duration::from_secs(60));
        assert_eq!(after(&[("retry-after", "60")]), minute);
        let later = ("retry-after", "Thu, 08 Jul 2021 18:28:17 GMT");
        assert_eq!(after(&[later]), minute);
        let hour_off = ("date", "Thu, 08 Jul 2021 18:27:47 GMT");
        assert_eq!(after(&[later, hour_off]), Some(Duration::from_secs(30)));
        assert_eq!(after(&[("retry-after", "-1")]), None);
        assert_eq!(after(&[("retry-after", "soon")]), None);
        assert_eq!(after(&[("retry-after", "999999999")]), Some(MAX_RETRY_AFTER));
    }

    #[test]
    fn an_error_page_of_a_gateway_does_not_lift_the_limit() {
        let page = Hint::from_response(502, &headers(&[]), wall());
        assert!(!page.is_unlimited() && !page.is_uncounted());
        assert!(Hint::from_response(428, &headers(&[]), wall()).is_uncounted());
    }
}

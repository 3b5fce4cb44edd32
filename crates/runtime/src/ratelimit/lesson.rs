//! What an answer teaches: read from its status and headers by the table of dialects.
//!
//! Whatever a header says, reading it cannot fail: what makes no sense is counted and left out.

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::dialect::{HeaderFormat, HeaderNames, HintPrecedence, QuotaModel, ResetUnit};

/// A bucket that is full sooner says too little about how fast it fills, in whole seconds.
const MIN_REFILL_TIME: Duration = Duration::from_secs(15);

/// How far behind an answer's own date a reset time may lie and still mean "now".
const ROUNDING: Duration = Duration::from_secs(5);

/// What an answer teaches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LimitHint {
    /// The target refused the call.
    pub(super) refused: bool,
    /// How long it asks to be left alone, where it says so.
    pub(super) wait: Option<Duration>,
    /// It is a bucket that fills steadily, and named no other time: the wait is the time of one call.
    pub(super) steady: bool,
    /// What it can still take.
    pub(super) remaining_quota: Option<RemainingQuota>,
    /// Headers that made no sense.
    pub(super) invalid_headers: u64,
}

/// What a target can still take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RemainingQuota {
    pub(super) remaining: f64,
    pub(super) reset_after: Duration,
    pub(super) quota: QuotaModel,
    /// How fast a bucket fills, where it can be told.
    pub(super) refill: Option<f64>,
}

/// Reads an answer. `wall` is the time of this process, for answers that carry no date.
pub(super) fn parse_hint(dialects: &[HeaderFormat], status: u16, headers: &HeaderMap, wall: Timestamp) -> LimitHint {
    let mut reader = Reader {
        headers,
        now: date(headers.get(DATE).and_then(|value| value.to_str().ok())).unwrap_or(wall),
        invalid_headers: 0,
    };
    let refused = status == 429;
    let spoken = dialects.iter().find(|dialect| {
        let quota = dialect.quota.as_ref();
        quota.is_some_and(|names| headers.contains_key(names.remaining))
    });
    let dialect = spoken.or(dialects.first());
    let left = dialect.and_then(|dialect| reader.remaining_quota(dialect));
    let wait = if refused {
        reader.retry_delay(dialect, left)
    } else {
        None
    };
    let fills = dialect.and_then(|dialect| dialect.quota.as_ref());
    let steady =
        refused && fills.is_some_and(|names| names.quota == QuotaModel::Leaky) && !headers.contains_key(RETRY_AFTER);
    LimitHint {
        refused,
        wait,
        steady,
        remaining_quota: left,
        invalid_headers: reader.invalid_headers,
    }
}

struct Reader<'a> {
    headers: &'a HeaderMap,
    now: Timestamp,
    invalid_headers: u64,
}

impl<'a> Reader<'a> {
    fn remaining_quota(&mut self, dialect: &HeaderFormat) -> Option<RemainingQuota> {
        let names = dialect.quota.as_ref()?;
        let remaining = self.number(names.remaining)?;
        let over = self.reset(names)?.saturating_add(dialect.slack);
        let spent = self.number(names.limit).map(|limit| limit - remaining);
        // A second more than it says, because the target cut the fraction off.
        let seconds = over.as_secs_f64() + 1.0;
        let tells = names.quota == QuotaModel::Leaky && over >= MIN_REFILL_TIME;
        let refill = spent
            .filter(|spent| tells && *spent >= 1.0)
            .map(|spent| spent / seconds);
        Some(RemainingQuota {
            remaining,
            reset_after: over,
            quota: names.quota,
            refill,
        })
    }

    fn retry_delay(&mut self, dialect: Option<&HeaderFormat>, left: Option<RemainingQuota>) -> Option<Duration> {
        let asked = self.retry_after();
        let reset = left.and_then(|left| match (left.quota, left.refill) {
            (QuotaModel::Window, _) => Some(left.reset_after),
            (QuotaModel::Leaky, Some(refill)) => Duration::try_from_secs_f64(1.0 / refill).ok(),
            (QuotaModel::Leaky, None) => None,
        });
        match dialect.map(|dialect| dialect.precedence) {
            Some(HintPrecedence::Reset) => reset.or(asked),
            _ => asked.or(reset),
        }
    }

    /// Seconds or a date, as RFC 9110 allows.
    fn retry_after(&mut self) -> Option<Duration> {
        let text = self.text(RETRY_AFTER.as_str())?;
        let read = seconds(text).or_else(|| self.until(date(Some(text))?));
        self.count_invalid(read)
    }

    fn reset(&mut self, names: &HeaderNames) -> Option<Duration> {
        let text = self.text(names.reset)?;
        let read = match names.unit {
            ResetUnit::Seconds => seconds(text),
            ResetUnit::Epoch => seconds(text)
                .and_then(|epoch| i64::try_from(epoch.as_secs()).ok())
                .and_then(|epoch| Timestamp::from_second(epoch).ok())
                .and_then(|moment| self.until_or_now(moment)),
            ResetUnit::Date => date(Some(text)).and_then(|moment| self.until_or_now(moment)),
        };
        self.count_invalid(read)
    }

    fn number(&mut self, name: &str) -> Option<f64> {
        let text = self.text(name)?;
        let read = seconds(text).map(|number| number.as_secs_f64());
        self.count_invalid(read)
    }

    fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = self.headers.get(name)?;
        let text = value.to_str().ok().map(str::trim);
        if text.is_none() {
            self.invalid_headers += 1;
        }
        text
    }

    /// A bucket that is full and a window that just ended have their reset time behind them.
    fn until_or_now(&self, moment: Timestamp) -> Option<Duration> {
        let past = Duration::try_from(self.now.duration_since(moment)).ok();
        match past {
            Some(past) => (past <= ROUNDING).then_some(Duration::ZERO),
            None => self.until(moment),
        }
    }

    fn until(&self, moment: Timestamp) -> Option<Duration> {
        Duration::try_from(moment.duration_since(self.now)).ok()
    }

    fn count_invalid<T>(&mut self, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.invalid_headers += 1;
        }
        read
    }
}

/// A number that is finite and not negative, as a span of seconds.
fn seconds(text: &str) -> Option<Duration> {
    // Go's and Python's servers write whole numbers; a float is read so that one is not refused.
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number).ok()
}

fn date(text: Option<&str>) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(text?).ok()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::super::dialect::{CODER, GITHUB, HETZNER, IETF, KUBERNETES};
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
            Some((HeaderName::from_static(name), value))
        };
        pairs.iter().filter_map(pair).collect()
    }

    fn wall() -> Timestamp {
        Timestamp::from_second(1_625_768_837).expect("a moment")
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn api_server_sends_retry_after() {
        let lesson = parse_hint(&[KUBERNETES], 429, &headers(&[("retry-after", "7")]), wall());
        assert_eq!((lesson.refused, lesson.wait), (true, Some(secs(7))));
        let fine = parse_hint(&[KUBERNETES], 200, &headers(&[("retry-after", "7")]), wall());
        assert_eq!(fine, LimitHint::default());
    }

    /// A refusal of 2021 as it was captured: the reset time is an hour away, the next call is not.
    #[test]
    fn empty_hetzner_bucket_refills_one_call_per_second() {
        let captured = headers(&[
            ("date", "Thu, 08 Jul 2021 18:27:17 GMT"),
            ("ratelimit-limit", "3600"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1625772437"),
        ]);
        let far_off = Timestamp::UNIX_EPOCH;
        let lesson = parse_hint(&[HETZNER], 429, &captured, far_off);
        let wait = lesson.wait.expect("a wait");
        assert!((0.9..1.1).contains(&wait.as_secs_f64()), "{wait:?}");
        let left = lesson.remaining_quota.expect("what is left");
        assert_eq!((left.remaining, left.reset_after), (0.0, secs(3600)));
        assert!(lesson.steady);
    }

    #[test]
    fn bucket_with_retry_time_is_closed_until_then() {
        let asked = headers(&[("retry-after", "7"), ("ratelimit-remaining", "0")]);
        let lesson = parse_hint(&[HETZNER], 429, &asked, wall());
        assert_eq!((lesson.wait, lesson.steady), (Some(secs(7)), false));
        let bare = parse_hint(&[HETZNER], 429, &headers(&[]), wall());
        assert_eq!((bare.wait, bare.steady), (None, true));
        assert!(!parse_hint(&[CODER], 429, &headers(&[]), wall()).steady);
    }

    #[test]
    fn small_bucket_reports_its_refill_rate() {
        let empty = headers(&[
            ("ratelimit-limit", "10"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1625772437"),
        ]);
        let wait = parse_hint(&[HETZNER], 429, &empty, wall()).wait.expect("a wait");
        assert!((360.0..361.0).contains(&wait.as_secs_f64()), "{wait:?}");
    }

    #[test]
    fn coder_reset_takes_precedence_over_retry_after() {
        let answer = headers(&[
            ("x-ratelimit-limit", "512"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1625768849"),
            ("retry-after", "60"),
        ]);
        assert_eq!(parse_hint(&[CODER], 429, &answer, wall()).wait, Some(secs(13)));
        assert_eq!(parse_hint(&[GITHUB], 429, &answer, wall()).wait, Some(secs(60)));
    }

    #[test]
    fn retry_after_may_be_a_date() {
        let at = |date| headers(&[("retry-after", date)]);
        let later = at("Thu, 08 Jul 2021 18:27:47 GMT");
        assert_eq!(parse_hint(&[IETF], 429, &later, wall()).wait, Some(secs(30)));
        let past = parse_hint(&[IETF], 429, &at("Thu, 08 Jul 2021 18:00:00 GMT"), wall());
        assert_eq!((past.wait, past.invalid_headers), (None, 1));
    }

    #[test]
    fn invalid_headers_are_counted_and_ignored() {
        for text in ["-1", "NaN", "inf", "1e400", "soon", "", "0x10", "\u{e4}"] {
            let lesson = parse_hint(&[KUBERNETES], 429, &headers(&[("retry-after", text)]), wall());
            assert_eq!((lesson.wait, lesson.invalid_headers), (None, 1), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_reading_fail(
            status in 100u16..600, texts in proptest::collection::vec("\\PC{0,24}|-?[0-9]{1,30}", 5),
        ) {
            let names = ["date", "retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
            let pairs: Vec<_> = names.iter().copied().zip(texts.iter().map(String::as_str)).collect();
            for dialect in [HETZNER, IETF, CODER, KUBERNETES] {
                let lesson = parse_hint(&[dialect], status, &headers(&pairs), wall());
                if let Some(left) = lesson.remaining_quota {
                    prop_assert!(left.remaining >= 0.0 && left.remaining.is_finite());
                    prop_assert!(left.refill.is_none_or(|refill| refill > 0.0));
                }
            }
        }
    }
}

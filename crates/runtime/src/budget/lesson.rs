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
const TELLING: Duration = Duration::from_secs(15);

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
    pub(super) left: Option<RemainingQuota>,
    /// Headers that made no sense.
    pub(super) nonsense: u64,
}

/// What a target can still take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RemainingQuota {
    pub(super) remaining: f64,
    pub(super) over: Duration,
    pub(super) quota: QuotaModel,
    /// How fast a bucket fills, where it can be told.
    pub(super) refill: Option<f64>,
}

/// Reads an answer. `wall` is the time of this process, for answers that carry no date.
pub(super) fn read(
    dialects: &[HeaderFormat],
    status: u16,
    headers: &HeaderMap,
    wall: Timestamp,
) -> LimitHint {
    let mut reader = Reader {
        headers,
        now: date(headers.get(DATE).and_then(|value| value.to_str().ok())).unwrap_or(wall),
        nonsense: 0,
    };
    let refused = status == 429;
    let spoken = dialects.iter().find(|dialect| {
        let quota = dialect.quota.as_ref();
        quota.is_some_and(|names| headers.contains_key(names.remaining))
    });
    let dialect = spoken.or(dialects.first());
    let left = dialect.and_then(|dialect| reader.left(dialect));
    let wait = if refused {
        reader.wait(dialect, left)
    } else {
        None
    };
    let fills = dialect.and_then(|dialect| dialect.quota.as_ref());
    let steady = refused
        && fills.is_some_and(|names| names.quota == QuotaModel::Leaky)
        && !headers.contains_key(RETRY_AFTER);
    LimitHint {
        refused,
        wait,
        steady,
        left,
        nonsense: reader.nonsense,
    }
}

struct Reader<'a> {
    headers: &'a HeaderMap,
    now: Timestamp,
    nonsense: u64,
}

impl<'a> Reader<'a> {
    fn left(&mut self, dialect: &HeaderFormat) -> Option<RemainingQuota> {
        let names = dialect.quota.as_ref()?;
        let remaining = self.number(names.remaining)?;
        let over = self.reset(names)?.saturating_add(dialect.slack);
        let spent = self.number(names.limit).map(|limit| limit - remaining);
        // A second more than it says, because the target cut the fraction off.
        let seconds = over.as_secs_f64() + 1.0;
        let tells = names.quota == QuotaModel::Leaky && over >= TELLING;
        let refill = spent
            .filter(|spent| tells && *spent >= 1.0)
            .map(|spent| spent / seconds);
        Some(RemainingQuota {
            remaining,
            over,
            quota: names.quota,
            refill,
        })
    }

    fn wait(
        &mut self,
        dialect: Option<&HeaderFormat>,
        left: Option<RemainingQuota>,
    ) -> Option<Duration> {
        let asked = self.retry_after();
        let reset = left.and_then(|left| match (left.quota, left.refill) {
            (QuotaModel::Window, _) => Some(left.over),
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
        self.sensible(read)
    }

    fn reset(&mut self, names: &HeaderNames) -> Option<Duration> {
        let text = self.text(names.reset)?;
        let read = match names.unit {
            ResetUnit::Seconds => seconds(text),
            ResetUnit::Epoch => seconds(text)
                .and_then(|epoch| i64::try_from(epoch.as_secs()).ok())
                .and_then(|epoch| Timestamp::from_second(epoch).ok())
                .and_then(|moment| self.just_past(moment)),
            ResetUnit::Date => date(Some(text)).and_then(|moment| self.just_past(moment)),
        };
        self.sensible(read)
    }

    fn number(&mut self, name: &str) -> Option<f64> {
        let text = self.text(name)?;
        let read = seconds(text).map(|number| number.as_secs_f64());
        self.sensible(read)
    }

    fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = self.headers.get(name)?;
        let text = value.to_str().ok().map(str::trim);
        if text.is_none() {
            self.nonsense += 1;
        }
        text
    }

    /// A bucket that is full and a window that just ended have their reset time behind them.
    fn just_past(&self, moment: Timestamp) -> Option<Duration> {
        let past = Duration::try_from(self.now.duration_since(moment)).ok();
        match past {
            Some(past) => (past <= ROUNDING).then_some(Duration::ZERO),
            None => self.until(moment),
        }
    }

    fn until(&self, moment: Timestamp) -> Option<Duration> {
        Duration::try_from(moment.duration_since(self.now)).ok()
    }

    fn sensible<T>(&mut self, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.nonsense += 1;
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
    fn an_api_server_says_retry_after() {
        let lesson = read(
            &[KUBERNETES],
            429,
            &headers(&[("retry-after", "7")]),
            wall(),
        );
        assert_eq!((lesson.refused, lesson.wait), (true, Some(secs(7))));
        let fine = read(
            &[KUBERNETES],
            200,
            &headers(&[("retry-after", "7")]),
            wall(),
        );
        assert_eq!(fine, LimitHint::default());
    }

    /// A refusal of 2021 as it was captured: the reset time is an hour away, the next call is not.
    #[test]
    fn an_empty_hetzner_bucket_has_a_call_in_a_second() {
        let captured = headers(&[
            ("date", "Thu, 08 Jul 2021 18:27:17 GMT"),
            ("ratelimit-limit", "3600"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1625772437"),
        ]);
        let far_off = Timestamp::UNIX_EPOCH;
        let lesson = read(&[HETZNER], 429, &captured, far_off);
        let wait = lesson.wait.expect("a wait");
        assert!((0.9..1.1).contains(&wait.as_secs_f64()), "{wait:?}");
        let left = lesson.left.expect("what is left");
        assert_eq!((left.remaining, left.over), (0.0, secs(3600)));
        assert!(lesson.steady);
    }

    #[test]
    fn a_bucket_that_names_a_time_is_left_alone_until_then() {
        let asked = headers(&[("retry-after", "7"), ("ratelimit-remaining", "0")]);
        let lesson = read(&[HETZNER], 429, &asked, wall());
        assert_eq!((lesson.wait, lesson.steady), (Some(secs(7)), false));
        let bare = read(&[HETZNER], 429, &headers(&[]), wall());
        assert_eq!((bare.wait, bare.steady), (None, true));
        assert!(!read(&[CODER], 429, &headers(&[]), wall()).steady);
    }

    #[test]
    fn a_small_bucket_tells_how_fast_it_fills_too() {
        let empty = headers(&[
            ("ratelimit-limit", "10"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1625772437"),
        ]);
        let wait = read(&[HETZNER], 429, &empty, wall()).wait.expect("a wait");
        assert!((360.0..361.0).contains(&wait.as_secs_f64()), "{wait:?}");
    }

    #[test]
    fn the_end_of_a_coder_window_counts_before_its_retry_after() {
        let answer = headers(&[
            ("x-ratelimit-limit", "512"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1625768849"),
            ("retry-after", "60"),
        ]);
        assert_eq!(read(&[CODER], 429, &answer, wall()).wait, Some(secs(13)));
        assert_eq!(read(&[GITHUB], 429, &answer, wall()).wait, Some(secs(60)));
    }

    #[test]
    fn a_date_is_a_retry_after_too() {
        let at = |date| headers(&[("retry-after", date)]);
        let later = at("Thu, 08 Jul 2021 18:27:47 GMT");
        assert_eq!(read(&[IETF], 429, &later, wall()).wait, Some(secs(30)));
        let past = read(&[IETF], 429, &at("Thu, 08 Jul 2021 18:00:00 GMT"), wall());
        assert_eq!((past.wait, past.nonsense), (None, 1));
    }

    #[test]
    fn nonsense_is_counted_and_left_out() {
        for text in ["-1", "NaN", "inf", "1e400", "soon", "", "0x10", "\u{e4}"] {
            let lesson = read(
                &[KUBERNETES],
                429,
                &headers(&[("retry-after", text)]),
                wall(),
            );
            assert_eq!((lesson.wait, lesson.nonsense), (None, 1), "{text:?}");
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
                let lesson = read(&[dialect], status, &headers(&pairs), wall());
                if let Some(left) = lesson.left {
                    prop_assert!(left.remaining >= 0.0 && left.remaining.is_finite());
                    prop_assert!(left.refill.is_none_or(|refill| refill > 0.0));
                }
            }
        }
    }
}

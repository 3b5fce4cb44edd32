//! A span of time as manifests write it: `30s`, `5m`, `1h30m`, as Go's `time.ParseDuration` reads it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The accepted syntax, as a rule instead of a pattern: a rule has a message that states what to write.
const RULE: &str = r"self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$')";

/// A span of time in the syntax of manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurationString(pub Duration);

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: write it like 30s, 5m or 1h30m")]
pub struct InvalidDuration(String);

impl DurationString {
    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for DurationString {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        let wrong = || InvalidDuration(text.to_owned());
        let (mut rest, mut total) = (text, Duration::ZERO);
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
            let (number, tail) = rest.split_at(digits.ok_or_else(wrong)?);
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic());
            let (unit, tail) = tail.split_at(letters.unwrap_or(tail.len()));
            let seconds = match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
            let number: f64 = number.parse().map_err(|_| wrong())?;
            let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
            total = total.checked_add(part).ok_or_else(wrong)?;
            rest = tail;
        }
        Ok(Self(total))
    }
}

impl fmt::Display for DurationString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        let parts = [
            (seconds / 3600, "h"),
            (seconds % 3600 / 60, "m"),
            (seconds % 60, "s"),
            (u64::from(millis), "ms"),
        ];
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        let some = parts.iter().filter(|(count, _)| *count > 0);
        some.into_iter()
            .try_for_each(|(count, unit)| write!(f, "{count}{unit}"))
    }
}

impl Serialize for DurationString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for DurationString {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": [{
                "rule": RULE,
                "message": "not a duration: write it like 30s, 5m or 1h30m",
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn go_durations_parse() {
        let read = |text: &str| text.parse::<DurationString>().map(|span| span.0.as_millis());
        assert_eq!(read("30s"), Ok(30_000));
        assert_eq!(read("1h30m"), Ok(5_400_000));
        assert_eq!(read("1.5s250ms"), Ok(1_750));
        for wrong in ["", "30", "s", "-1s", "1d", "1s ", "1..5s"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn durations_round_trip(millis in 0u64..10_000_000_000) {
            let span = DurationString(Duration::from_millis(millis));
            prop_assert_eq!(span.to_string().parse::<DurationString>(), Ok(span));
        }
    }
}

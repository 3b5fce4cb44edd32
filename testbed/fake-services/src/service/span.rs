//! Durations as people write them: `500ms`, `2s`, `5m`, `1h`, and ranges of them, `500ms..1s`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in JSON: text with a unit, or a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Reads a duration with its unit.
///
/// # Errors
/// What is expected instead.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration: write 500ms, 2s, 5m or 1h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match &text[digits.len()..] {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Reads `LOW..HIGH`, or one duration for both.
///
/// # Errors
/// What is expected instead.
pub fn range(text: &str) -> Result<RangeInclusive<Duration>, String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (parse(low)?, parse(high)?);
    if low > high {
        return Err(format!("`{text}` ends before it begins"));
    }
    Ok(low..=high)
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Seconds(f64),
        }
        match Written::deserialize(deserializer)? {
            Written::Text(text) => parse(&text).map(Self).map_err(D::Error::custom),
            Written::Seconds(seconds) => Duration::try_from_secs_f64(seconds)
                .map(Self)
                .map_err(|_| D::Error::invalid_value(Unexpected::Float(seconds), &"seconds >= 0")),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}ms", self.0.as_millis()))
    }
}

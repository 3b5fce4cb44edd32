//! One value of an object, printed as the API server prints a column of its type; ages as kubectl prints them: at most two
//! units, coarser with age.

use jiff::Timestamp;
use serde_json::{Number, Value};

/// The printed text; empty if the value does not fit the type.
pub(super) fn cell_text(type_: &str, value: &Value, at: Timestamp) -> String {
    match (type_, value) {
        ("string", Value::String(text)) => one_line(text),
        ("string", Value::Null) => "<no value>".to_owned(),
        ("string", other) => other.to_string(),
        ("boolean", Value::Bool(value)) => value.to_string(),
        ("integer", Value::Number(number)) => integer_value(number).to_string(),
        ("number", Value::Number(number)) => number.to_string(),
        ("date", Value::String(time)) => format_age(time, at),
        _ => String::new(),
    }
}

/// Cut at the first line end and marked, as kubectl does.
fn one_line(text: &str) -> String {
    match text.find(['\n', '\r', '\u{c}']) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[allow(clippy::cast_possible_truncation)] // the API server truncates floats in integer columns
fn integer_value(number: &Number) -> i64 {
    number
        .as_i64()
        .unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
}

/// The age, at `at`, of the time written in `then`.
pub(super) fn format_age(then: &str, at: Timestamp) -> String {
    match then.parse::<Timestamp>() {
        Ok(then) => age_at(then, at),
        Err(_) if then.is_empty() => "<unknown>".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// The age of a time, at `at`.
#[must_use]
pub fn age_at(then: Timestamp, at: Timestamp) -> String {
    human_duration(at.duration_since(then).as_secs())
}

/// A duration in seconds.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    let two = |first: i64, unit: &str, second: i64, small: &str| match second {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{second}{small}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    let (days, years) = (seconds / 86_400, seconds / 31_536_000);
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_grow_coarser() {
        for (seconds, said) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (10_800, "3h"),
            (27_000, "7h30m"),
            (172_799, "47h"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(seconds), said, "{seconds}");
        }
    }

    #[test]
    fn an_invalid_time_is_reported() {
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(format_age("", at), "<unknown>");
        assert_eq!(format_age("yesterday", at), "<invalid>");
    }
}

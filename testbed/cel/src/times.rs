//! Timestamps and durations.

use jiff::{Timestamp, tz::TimeZone};

use super::value::Val;

const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
];

/// RFC 3339, or a date on its own as schemas of format `date` have it.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| format!("{text}T00:00:00Z").parse().ok())
}

/// Go's duration syntax, in nanoseconds.
#[allow(clippy::cast_possible_truncation)] // durations beyond 290 years are none
pub fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        let unit_length = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &tail[..unit_length])?;
        total += number * factor;
        rest = &tail[unit_length..];
    }
    (!text.is_empty() && total.abs() < 9.2e18).then_some((sign * total) as i64)
}

/// Seconds with as many digits as needed, as CEL prints durations.
pub(super) fn print_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let absolute = nanoseconds.unsigned_abs();
    let (seconds, fraction) = (absolute / 1_000_000_000, absolute % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{seconds}s");
    }
    let digits = format!("{fraction:09}");
    format!("{sign}{seconds}.{}s", digits.trim_end_matches('0'))
}

pub(super) fn print_timestamp(time: Timestamp) -> String {
    time.to_string()
}

/// `getFullYear` and the like, in UTC or the named zone.
pub(super) fn timestamp_part(function: &str, time: Timestamp, zone: Option<&str>) -> Result<Val, String> {
    let zone = match zone {
        None | Some("UTC") => TimeZone::UTC,
        Some(name) => parse_zone(name).ok_or_else(|| format!("unknown time zone {name}"))?,
    };
    let zoned = time.to_zoned(zone);
    let part = match function {
        "getFullYear" => i64::from(zoned.year()),
        "getMonth" => i64::from(zoned.month()) - 1,
        "getDate" => i64::from(zoned.day()),
        "getDayOfMonth" => i64::from(zoned.day()) - 1,
        "getDayOfWeek" => i64::from(zoned.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(zoned.day_of_year()) - 1,
        "getHours" => i64::from(zoned.hour()),
        "getMinutes" => i64::from(zoned.minute()),
        "getSeconds" => i64::from(zoned.second()),
        "getMilliseconds" => i64::from(zoned.millisecond()),
        _ => return Err("no such overload".to_owned()),
    };
    Ok(Val::Int(part))
}

fn parse_zone(name: &str) -> Option<TimeZone> {
    if let Some((hours, minutes)) = name.split_once(':') {
        let negative = hours.starts_with('-');
        let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
        let seconds = hours * 3600 + minutes.parse::<i32>().ok()? * 60;
        let offset = jiff::tz::Offset::from_seconds(if negative { -seconds } else { seconds }).ok()?;
        return Some(TimeZone::fixed(offset));
    }
    TimeZone::get(name).ok()
}

pub(super) fn duration_part(function: &str, nanoseconds: i64) -> Result<Val, String> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => 1_000_000,
        _ => return Err("no such overload".to_owned()),
    };
    Ok(Val::Int(nanoseconds / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        assert_eq!(parse_duration("1h30m"), Some(5_400_000_000_000));
        assert_eq!(parse_duration("-1.5s"), Some(-1_500_000_000));
        assert_eq!(parse_duration("10"), None);
        assert_eq!(print_duration(1_500_000_000), "1.5s");
    }
}

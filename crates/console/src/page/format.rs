//! Template filters that format numbers, times and names for people. Pure.

use jiff::Timestamp;
use minijinja::Value;

/// A number of seconds: `412 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`.
pub(super) fn format_duration(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 3600.0;
    const DAY: f64 = 86_400.0;
    let two = |whole: f64, a: &str, part: f64, b: &str| match part.floor() {
        0.0 => format!("{} {a}", whole.floor()),
        rest => format!("{} {a} {rest} {b}", whole.floor()),
    };
    match seconds.max(0.0) {
        0.0 => "0 ms".to_owned(),
        s if s < 0.001 => "under 1 ms".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < MINUTE => format!("{s:.0} s"),
        s if s < HOUR => two(s / MINUTE, "min", s % MINUTE, "s"),
        s if s < DAY => two(s / HOUR, "h", s % HOUR / MINUTE, "min"),
        s => two(s / DAY, "d", s % DAY / HOUR, "h"),
    }
}

/// How long before `now` a moment was, in whole seconds: a reader needs no more.
pub(super) fn seconds_since(moment: &str, now: &str) -> String {
    let read = |text: &str| text.parse::<Timestamp>().ok();
    match (read(moment), read(now)) {
        (Some(moment), Some(now)) => match now.duration_since(moment).as_secs() {
            ..1 => "a moment".to_owned(),
            seconds @ 1..60 => format!("{seconds} s"),
            #[allow(clippy::cast_precision_loss, reason = "seconds of a lifetime fit")]
            seconds => format_duration(seconds as f64),
        },
        _ => String::new(),
    }
}

/// A part of a whole in percent, for widths in a chart.
pub(super) fn percent(part: f64, whole: f64) -> String {
    let share = match whole > 0.0 {
        true => (part / whole * 100.0).clamp(0.0, 100.0),
        false => 0.0,
    };
    format!("{share:.2}")
}

/// `childrenWritten` and `OriginUnreachable` in plain words; an abbreviation stays as it is.
pub(super) fn split_words(name: &str) -> String {
    let signs: Vec<char> = name.chars().collect();
    let mut words = String::new();
    for (n, sign) in signs.iter().enumerate() {
        let after_small = n > 0 && signs[n - 1].is_ascii_lowercase();
        let abbreviation = |n: usize| signs.get(n).is_some_and(char::is_ascii_uppercase);
        if sign.is_ascii_uppercase() && after_small {
            words.push(' ');
        }
        match abbreviation(n + 1) || (n > 0 && abbreviation(n - 1)) {
            true => words.push(*sign),
            false => words.push(sign.to_ascii_lowercase()),
        }
    }
    words
}

/// The style class of a stage: a stage has the same color in every chart, and the last one is green.
pub(super) fn stage_color(stage: &str) -> &'static str {
    match &*stage.to_ascii_lowercase().replace(' ', "") {
        "created" | "decided" => "s1",
        "accepted" | "acceptedbytheprovider" => "s2",
        "programmed" => "s4",
        "proven" | "ready" | "labelled" | "labelsmoved" | "ended" => "s5",
        _ => "s3",
    }
}

/// How many seconds a timeline's chart covers: up to `proven` if it was reached, else up to now.
pub(super) fn axis_seconds(timeline: &Value, now: &str) -> f64 {
    let attribute = |value: &Value, name: &str| value.get_attr(name).unwrap_or_default();
    let stages: Vec<Value> = match attribute(timeline, "stages").try_iter() {
        Ok(stages) => stages.collect(),
        Err(_) => Vec::new(),
    };
    let proven = stages.iter().any(|it| attribute(it, "name").as_str() == Some("proven"));
    let offsets = stages
        .iter()
        .map(|it| f64::try_from(attribute(it, "offset")).unwrap_or(0.0));
    let last = offsets.fold(0.0, f64::max);
    let began = attribute(timeline, "began");
    let running = || {
        let began = began.as_str()?.parse::<Timestamp>().ok()?;
        let now = now.parse::<Timestamp>().ok()?;
        Some(now.duration_since(began).as_secs_f64())
    };
    let end = match proven {
        true => last,
        false => running().unwrap_or(last).max(last),
    };
    end.max(0.001)
}

/// A count with thousands separators.
pub(super) fn group_thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_at_every_size() {
        let said: Vec<String> = [0.0004, 0.4119, 3.21, 59.0, 250.0, 3600.0, 270_000.0]
            .map(format_duration)
            .into();
        let want = ["under 1 ms", "412 ms", "3.2 s", "59 s", "4 min 10 s", "1 h", "3 d 3 h"];
        assert_eq!(said, want);
    }

    #[test]
    fn words_are_split_and_abbreviations_are_not() {
        assert_eq!(split_words("childrenWritten"), "children written");
        assert_eq!(split_words("OriginUnreachable"), "origin unreachable");
        assert_eq!(split_words("NoTLSListener"), "no TLSListener");
    }

    #[test]
    fn a_percentage_stays_in_range() {
        assert_eq!(percent(1.0, 4.0), "25.00");
        assert_eq!(percent(9.0, 4.0), "100.00");
        assert_eq!(percent(1.0, 0.0), "0.00");
    }

    #[test]
    fn a_future_time_has_no_age() {
        assert_eq!(
            seconds_since("2026-01-01T00:00:09Z", "2026-01-01T00:00:00Z"),
            "a moment"
        );
        assert_eq!(
            seconds_since("2026-01-01T00:00:00Z", "2026-01-01T00:01:05Z"),
            "1 min 5 s"
        );
        assert_eq!(seconds_since("2026-01-01T00:00:00Z", "2026-01-01T00:00:03.7Z"), "3 s");
    }
}

//! RFC 3339 times of `managedFields`, as far as they must be put in order.

/// The text in UTC without fractions, as the server writes it.
pub(super) fn normalize(text: &str) -> Option<String> {
    seconds(text).map(format)
}

/// Seconds since the epoch.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators
        .iter()
        .any(|(at, byte)| text.as_bytes().get(*at) != Some(byte))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let zone = text.get(19..)?;
    let zone = match zone.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => zone,
    };
    let east = offset(zone)?;
    Some(days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - east)
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(sign * (hours * 3_600 + minutes * 60))
}

/// Days since the epoch of a date of the Gregorian calendar. Years begin in March here, so that a
/// leap day is the last day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn format(seconds: i64) -> String {
    let (date, time) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let era = date.div_euclid(146_097);
    let day_of_era = date.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_normalized_to_utc_seconds() {
        for (text, since_epoch, utc) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2024-02-29T23:59:59.123Z", 1_709_251_199, "2024-02-29T23:59:59Z"),
            ("2024-03-01T00:30:00+01:00", 1_709_249_400, "2024-02-29T23:30:00Z"),
            ("0001-01-01T00:00:00Z", -62_135_596_800, "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(seconds(text), Some(since_epoch), "{text}");
            assert_eq!(normalize(text).as_deref(), Some(utc), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for bad in [
            "",
            "yesterday",
            "2024-02-29 23:59:59Z",
            "2024-13-01T00:00:00Z",
            "2024-02-29T23:59:59",
            "2024-02-29T23:59:59+1é",
        ] {
            assert_eq!(normalize(bad), None, "{bad}");
        }
    }
}

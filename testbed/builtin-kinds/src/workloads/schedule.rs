//! The syntax of a cron job's schedule, with the messages of the parser the server uses.

use aplomb_apimachinery::field::go_quote;

/// What may stand at one place of a schedule.
struct Bounds {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const PLACES: [Bounds; 5] = [
    bounds(0, 59, &[]),
    bounds(0, 23, &[]),
    bounds(1, 31, &[]),
    bounds(1, 12, MONTHS),
    bounds(0, 6, DAYS),
];
const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

const fn bounds(least: u64, most: u64, names: &'static [&'static str]) -> Bounds {
    Bounds { least, most, names }
}

/// What is wrong with a schedule.
pub(super) fn wrong(schedule: &str) -> Option<String> {
    let schedule = match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => schedule,
    };
    if schedule.starts_with('@') {
        if let Some(every) = schedule.strip_prefix("@every ") {
            let why = wrong_duration(every)?;
            return Some(format!("failed to parse duration {schedule}: {why}"));
        }
        let known = DESCRIPTORS.contains(&schedule);
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != PLACES.len() {
        let (found, shown) = (fields.len(), fields.join(" "));
        return Some(format!("expected exactly 5 fields, found {found}: [{shown}]"));
    }
    fields.iter().zip(&PLACES).find_map(|(field, bounds)| {
        let mut ranges = field.split(',').filter(|range| !range.is_empty());
        ranges.find_map(|range| wrong_range(range, bounds).err())
    })
}

/// What Go says to a text that is no duration.
fn wrong_duration(text: &str) -> Option<String> {
    let quoted = go_quote(text);
    let invalid = format!("time: invalid duration {quoted}");
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return Some(invalid);
    }
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let digits = &rest[..rest.len() - number.len()];
        if digits.trim_matches('.').is_empty() || digits.matches('.').count() > 1 {
            return Some(invalid);
        }
        rest = number.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.');
        let unit = &number[..number.len() - rest.len()];
        if unit.is_empty() {
            return Some(format!("time: missing unit in duration {quoted}"));
        }
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&unit) {
            let unit = go_quote(unit);
            return Some(format!("time: unknown unit {unit} in duration {quoted}"));
        }
    }
    None
}

fn wrong_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = reach(&ends, text, bounds)?;
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => number(step)?,
        _ => return Err(format!("too many slashes: {text}")),
    };
    if parts.len() == 2 && ends.len() == 1 {
        end = bounds.most;
    }
    let (least, most) = (bounds.least, bounds.most);
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

/// The first and the last value of the range `text`, without its step.
fn reach(ends: &[&str], text: &str, bounds: &Bounds) -> Result<(u64, u64), String> {
    let (first, others) = match ends {
        [] | ["*" | "?", ..] => return Ok((bounds.least, bounds.most)),
        [first, others @ ..] => (number_or_name(first, bounds)?, others),
    };
    match others {
        [] => Ok((first, first)),
        [last] => Ok((first, number_or_name(last, bounds)?)),
        _ => Err(format!("too many hyphens: {text}")),
    }
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(place) => Ok(bounds.least + place as u64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let Ok(number) = text.parse::<i64>() else {
        let quoted = go_quote(text);
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax"
        ));
    };
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_refused_in_the_parsers_words() {
        for good in [
            "*/5 * * * *",
            "0 0 1 jan mon-fri",
            "@hourly",
            "@every 1h30m",
            "1,2 3-4/2 ? * 0",
        ] {
            assert_eq!(wrong(good), None, "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("@never", "unrecognized descriptor: @never"),
            (
                "@every 5",
                "failed to parse duration @every 5: time: missing unit in duration \"5\"",
            ),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
        ] {
            assert_eq!(wrong(bad).as_deref(), Some(why));
        }
    }
}

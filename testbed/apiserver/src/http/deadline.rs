//! The `timeout` a request may carry: read as Go reads a duration, refused in Go's words.
//!
//! The box answers at once, so a deadline is never reached here; only what is no duration matters.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::query::Query;
use aplomb_apimachinery::status::ApiError;

use super::route::RequestInfo;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// Requests that last until somebody ends them have no deadline.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// Refuses a time-out that is no duration.
pub(super) fn check(info: &RequestInfo, query: &Query) -> Result<(), ApiError> {
    let lasting = matches!(info.verb.as_str(), "watch" | "proxy") || LONG_RUNNING.contains(&info.subresource.as_str());
    match query.first("timeout") {
        Some(text) if !text.is_empty() && !lasting => parse(text)
            .map_err(|why| ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}"))),
        _ => Ok(()),
    }
}

/// Whether the text is a duration to Go, and what Go says if not.
fn parse(text: &str) -> Result<(), String> {
    let quoted = go_quote(text);
    let invalid = || format!("time: invalid duration {quoted}");
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = number(rest).ok_or_else(invalid)?;
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {quoted}"));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let unit = go_quote(unit);
            return Err(format!("time: unknown unit {unit} in duration {quoted}"));
        };
        let sum = number.checked_mul(*factor).and_then(|it| it.checked_add(total));
        total = sum.filter(|it| i64::try_from(*it).is_ok()).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(())
}

/// The whole part of the number at the start, and what follows the number.
fn number(text: &str) -> Option<(u64, &str)> {
    let (whole, after) = digits(text);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", after),
    };
    match whole {
        "" if fraction.is_empty() => None,
        "" => Some((0, after)),
        _ => whole.parse().ok().map(|whole| (whole, after)),
    }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for good in ["0", "0s", "3m", "1h2m3.5s", "-1.5h", ".5s", "1µs", "+10ms"] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_is_none_is_refused_in_gos_words() {
        let said = |text: &str| parse(text).unwrap_err();
        assert_eq!(said("invalid"), "time: invalid duration \"invalid\"");
        assert_eq!(said("."), "time: invalid duration \".\"");
        assert_eq!(said("3"), "time: missing unit in duration \"3\"");
        assert_eq!(said("3d"), "time: unknown unit \"d\" in duration \"3d\"");
        assert_eq!(said("9999999999999h"), "time: invalid duration \"9999999999999h\"");
    }
}

//! `metav1.Time` as Go parses and prints it.

/// The elements of RFC 3339 in order, as Go's layout names them, with the digits each takes.
const ELEMENTS: [(&str, usize); 11] = [
    ("2006", 4),
    ("-", 0),
    ("01", 2),
    ("-", 0),
    ("02", 2),
    ("T", 0),
    ("15", 2),
    (":", 0),
    ("04", 2),
    (":", 0),
    ("05", 2),
];

/// Reads a time and prints it in UTC with whole seconds.
///
/// # Errors
/// Go's message for a text that is not RFC 3339.
pub fn parse(text: &str) -> Result<String, String> {
    if let Some(problem) = find_problem(text) {
        return Err(problem);
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        Err(_) => Err(format!("parsing time {text:?}: day out of range")),
    }
}

fn find_problem(text: &str) -> Option<String> {
    let cannot = |rest: &str, element: &str| {
        format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {rest:?} as {element:?}"
        )
    };
    let mut rest = text;
    for (element, digits) in ELEMENTS {
        let taken = if digits == 0 {
            rest.strip_prefix(element)
        } else {
            let number = rest
                .get(..digits)
                .filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
            number.map(|_| &rest[digits..])
        };
        match taken {
            Some(left) => rest = left,
            None => return Some(cannot(rest, element)),
        }
        if let Some(field) = out_of_range(text, element, rest) {
            return Some(format!("parsing time {text:?}: {field} out of range"));
        }
    }
    let fraction = rest.strip_prefix(['.', ',']);
    if let Some(fraction) = fraction {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    (!is_zone(rest)).then(|| cannot(rest, "Z07:00"))
}

fn out_of_range(text: &str, element: &str, rest: &str) -> Option<&'static str> {
    let end = text.len() - rest.len();
    let number: u32 = text.get(end.checked_sub(2)?..end)?.parse().ok()?;
    match element {
        "01" if !(1..=12).contains(&number) => Some("month"),
        "02" if !(1..=31).contains(&number) => Some("day"),
        "15" if number > 23 => Some("hour"),
        "04" if number > 59 => Some("minute"),
        "05" if number > 59 => Some("second"),
        _ => None,
    }
}

fn is_zone(text: &str) -> bool {
    let bytes = text.as_bytes();
    text == "Z"
        || (bytes.len() == 6
            && matches!(bytes[0], b'+' | b'-')
            && bytes[3] == b':'
            && [1, 2, 4, 5].iter().all(|i| bytes[*i].is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lose_their_fraction_and_zone() {
        assert_eq!(
            parse("2026-01-02T03:04:05.678+02:00").as_deref(),
            Ok("2026-01-02T01:04:05Z")
        );
    }

    #[test]
    fn errors_are_those_of_go() {
        let message =
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#;
        assert_eq!(parse("x"), Err(message.to_owned()));
    }
}

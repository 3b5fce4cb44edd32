//! String formats: which ones count, and whether a text has one.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use aplomb_go_compat::statics::StaticRegex;

use super::super::structural::Structural;

/// The format a schema's values are held to; empty when it names none the server knows.
#[must_use]
pub fn supported(schema: &Structural) -> &str {
    let format = schema.format.as_str();
    if schema.extensions.int_or_string {
        return "";
    }
    let known = match schema.type_name.as_str() {
        "" | "string" => is_string_format(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if known { format } else { "" }
}

/// Whether the server checks strings of this format; dashes in its name do not matter.
#[must_use]
pub fn is_string_format(format: &str) -> bool {
    checker(format).is_some()
}

/// Whether `text` has `format`; any text has a format nobody knows.
#[must_use]
pub fn matches(format: &str, text: &str) -> bool {
    checker(format).is_none_or(|check| check(text))
}

type Check = fn(&str) -> bool;

fn checker(format: &str) -> Option<Check> {
    let check: Check = match format.replace('-', "").as_str() {
        "bsonobjectid" => |t| PATTERNS.object_id.is_match(t),
        "uri" => is_request_uri,
        "email" => |t| PATTERNS.email.is_match(t),
        "hostname" => is_hostname,
        "ipv4" => |t| parse_ip(t).is_some() && t.contains('.'),
        "ipv6" => |t| parse_ip(t).is_some() && t.contains(':'),
        "cidr" => is_cidr,
        "mac" => |t| PATTERNS.mac.is_match(t),
        "uuid" => |t| PATTERNS.uuid.is_match(t),
        "uuid3" => |t| PATTERNS.uuid3.is_match(t),
        "uuid4" => |t| PATTERNS.uuid4.is_match(t),
        "uuid5" => |t| PATTERNS.uuid5.is_match(t),
        "isbn" => |t| is_isbn10(t) || is_isbn13(t),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |t| PATTERNS.ssn.is_match(t),
        "hexcolor" => |t| PATTERNS.hex_color.is_match(t),
        "rgbcolor" => |t| PATTERNS.rgb_color.is_match(t),
        "byte" => |t| PATTERNS.base64.is_match(t),
        "password" => |_| true,
        "date" => is_date,
        "datetime" => is_date_time,
        "duration" => is_duration,
        "k8sshortname" => |t| t.len() <= 63 && PATTERNS.short_name.is_match(t),
        "k8slongname" => |t| t.len() <= 253 && PATTERNS.long_name.is_match(t),
        _ => return None,
    };
    Some(check)
}

struct Patterns {
    object_id: StaticRegex,
    email: StaticRegex,
    hostname: StaticRegex,
    mac: StaticRegex,
    uuid: StaticRegex,
    uuid3: StaticRegex,
    uuid4: StaticRegex,
    uuid5: StaticRegex,
    ssn: StaticRegex,
    hex_color: StaticRegex,
    rgb_color: StaticRegex,
    base64: StaticRegex,
    credit_card: StaticRegex,
    duration: StaticRegex,
    go_duration: StaticRegex,
    time: StaticRegex,
    short_name: StaticRegex,
    long_name: StaticRegex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(patterns);

fn patterns() -> Patterns {
    let new = |source: &str| StaticRegex::new(source).expect("the patterns of this table compile");
    Patterns {
        object_id: new("(?i)^[0-9a-f]{24}$"),
        email: new(
            r#"^(?:[^<>@]*<)?(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*|"[^"]+")@[^\s<>@,;:"()\\\[\].]+(?:\.[^\s<>@,;:"()\\\[\].]+)*>?$"#,
        ),
        hostname: new(
            r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
        ),
        mac: new(
            "(?i)^(([0-9a-f]{2}([:-])){5}[0-9a-f]{2}|([0-9a-f]{2}[:-]){7}[0-9a-f]{2}|([0-9a-f]{2}[:-]){19}[0-9a-f]{2}|([0-9a-f]{4}\\.){2}[0-9a-f]{4}|([0-9a-f]{4}\\.){3}[0-9a-f]{4})$",
        ),
        uuid: new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        uuid3: new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        uuid4: new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        uuid5: new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ssn: new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        hex_color: new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        rgb_color: new(
            r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*\)$",
        ),
        base64: new("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"),
        credit_card: new(
            "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$",
        ),
        duration: new(
            r"(?i)(-?\d+)\s*(ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|secs?|seconds?|s|mins?|minutes?|m|hours?|hrs?|hr|h|days?|d|weeks?|wk|w)",
        ),
        go_duration: new(
            r"^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$",
        ),
        time: new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"),
        short_name: new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        long_name: new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
    }
}

fn is_hostname(text: &str) -> bool {
    PATTERNS.hostname.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// Tolerates leading zeros, as the server does for the sake of old objects.
fn parse_ip(text: &str) -> Option<std::net::IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(Into::into);
    }
    let octets: Vec<u8> = text
        .split('.')
        .map(|part| {
            if part.bytes().all(|b| b.is_ascii_digit()) {
                part.parse().ok()
            } else {
                None
            }
        })
        .collect::<Option<_>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max = if address.contains(':') { 128 } else { 32 };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    parse_ip(address).is_some() && digits && bits.parse::<u16>().is_ok_and(|bits| bits <= max)
}

fn is_request_uri(text: &str) -> bool {
    let printable = !text.is_empty() && text.chars().all(|c| c > ' ' && c != '\u{7f}');
    let scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let mut letters = scheme.chars();
        letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    });
    printable && (text.starts_with('/') || scheme)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(found) = PATTERNS.time.captures(time) else {
        return false;
    };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

fn is_duration(text: &str) -> bool {
    PATTERNS.go_duration.is_match(text) || PATTERNS.duration.is_match(text)
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    if digits.len() != 10 {
        return false;
    }
    let value = |(index, c): (usize, &char)| match (index, c) {
        (9, 'X') => Some(10),
        (_, c) => c.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    values.is_some_and(|v| (1..=10).zip(v).map(|(weight, digit)| weight * digit).sum::<u32>() % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let cleaned = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
    let digits: Option<Vec<u32>> = cleaned.map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        let weighted = digits
            .iter()
            .zip([1, 3].into_iter().cycle())
            .map(|(digit, weight)| digit * weight);
        digits.len() == 13 && weighted.sum::<u32>() % 10 == 0
    })
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(index, digit): (usize, u32)| match (index % 2, digit * 2) {
        (1, value) if value > 9 => value - 9,
        (1, value) => value,
        _ => digit,
    };
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(doubled)
        .sum();
    PATTERNS.credit_card.is_match(&digits) && sum.is_multiple_of(10)
}

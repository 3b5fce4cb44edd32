//! Checks several kinds share, with the server's messages. Each returns what is wrong.

use std::net::IpAddr;

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::value::{at, has, list, members, number, text};

/// Not less than zero.
pub(super) fn nonnegative(object: &Value, path: &[&str], field: &str) -> Vec<FieldError> {
    match number(object, path) {
        Some(value) if value < 0 => {
            vec![FieldError::invalid(field, value, "must be greater than or equal to 0")]
        }
        _ => Vec::new(),
    }
}

/// One error per message.
pub(super) fn invalid(field: &str, value: &str, messages: Vec<String>) -> Vec<FieldError> {
    messages
        .into_iter()
        .map(|why| FieldError::invalid(field, value, why))
        .collect()
}

/// A value out of a fixed set.
pub(super) fn one_of(field: &str, value: &str, allowed: &[&str]) -> Vec<FieldError> {
    if allowed.contains(&value) {
        Vec::new()
    } else {
        vec![FieldError::not_supported(field, value, allowed)]
    }
}

/// `field is immutable`, showing the new value.
pub(super) fn immutable(new: &Value, old: &Value, path: &[&str]) -> Vec<FieldError> {
    if at(new, path) == at(old, path) {
        return Vec::new();
    }
    vec![FieldError::new(
        ErrorType::Invalid,
        path.join("."),
        at(new, path).clone(),
        "field is immutable",
    )]
}

/// Keys and values of labels.
pub(super) fn labels(object: &Value, path: &[&str], field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in members(object, path) {
        errors.extend(invalid(field, key, validation::label_key(key)));
        let value = value.as_str().unwrap_or("");
        errors.extend(invalid(field, value, validation::label_value(value)));
    }
    errors
}

/// The value of a label, with all that is wrong in one error.
pub(super) fn label_value(value: &str, field: &str) -> Option<FieldError> {
    let wrong = validation::label_value(value);
    (!wrong.is_empty()).then(|| FieldError::invalid(field, value, wrong.join(";")))
}

/// A label selector.
pub(super) fn label_selector(selector: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = labels(selector, &["matchLabels"], &format!("{field}.matchLabels"));
    for (index, expression) in list(selector, &["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let values = list(expression, &["values"]);
        match text(expression, &["operator"]) {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                format!("{field}.operator"),
                other,
                "not a valid selector operator",
            )),
        }
        let key = text(expression, &["key"]);
        errors.extend(invalid(&format!("{field}.key"), key, validation::label_key(key)));
        for (position, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or("");
            errors.extend(invalid(
                &format!("{field}.values[{position}]"),
                value,
                validation::label_value(value),
            ));
        }
    }
    errors
}

/// Whether labels satisfy a (valid) label selector.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let equal = members(selector, &["matchLabels"]).all(|(key, value)| label(key) == value.as_str());
    equal
        && list(selector, &["matchExpressions"]).iter().all(|expression| {
            let found = label(text(expression, &["key"]));
            let listed = list(expression, &["values"])
                .iter()
                .any(|v| found.is_some() && v.as_str() == found);
            match text(expression, &["operator"]) {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

/// A port number.
pub(super) fn port_number(value: i64) -> Option<String> {
    (!(1..=65535).contains(&value)).then(|| "must be between 1 and 65535, inclusive".to_owned())
}

/// A port by number or by name.
pub(super) fn port_number_or_name(port: &Value, field: &str) -> Vec<FieldError> {
    match port {
        Value::String(name) => invalid(field, name, validation::port_name(name)),
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or(0);
            port_number(number)
                .map(|why| FieldError::invalid(field, number, why))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A nonnegative number or a percentage.
pub(super) fn int_or_percent(value: &Value, field: &str) -> Vec<FieldError> {
    match value {
        Value::String(percent) => invalid(field, percent, validation::percent(percent)),
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            vec![FieldError::new(
                ErrorType::Invalid,
                field,
                value.clone(),
                "must be greater than or equal to 0",
            )]
        }
        _ => Vec::new(),
    }
}

/// The number before the percent sign.
pub(super) fn percent_value(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('%')?.parse().ok()
}

/// A percentage of at most a hundred.
pub(super) fn at_most_100_percent(value: &Value, field: &str) -> Vec<FieldError> {
    match percent_value(value) {
        Some(percent) if percent > 100 => vec![FieldError::new(
            ErrorType::Invalid,
            field,
            value.clone(),
            "must not be greater than 100%",
        )],
        _ => Vec::new(),
    }
}

/// An IP address in any spelling but with no ambiguity.
pub(super) fn ip(value: &str, field: &str) -> Vec<FieldError> {
    let why = match value.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => "must not be an IPv4-mapped IPv6 address",
        Ok(_) => return Vec::new(),
        Err(_) if without_leading_zeros(value).is_some() => "must not have leading 0s",
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    };
    vec![FieldError::invalid(field, value, why)]
}

/// An IP address in its one right spelling.
pub(super) fn canonical_ip(value: &str, field: &str) -> Vec<FieldError> {
    let errors = ip(value, field);
    match value.parse::<IpAddr>() {
        Ok(ip) if errors.is_empty() && ip.to_string() != value => {
            vec![FieldError::invalid(
                field,
                value,
                format!("must be in canonical form (\"{ip}\")"),
            )]
        }
        _ => errors,
    }
}

/// An address an endpoint may have.
pub(super) fn endpoint_ip(value: &str, field: &str) -> Vec<FieldError> {
    let Some(ip) = value.parse::<IpAddr>().ok().or_else(|| without_leading_zeros(value)) else {
        let why = "must be a valid IP address";
        return vec![FieldError::invalid(field, value, why)];
    };
    let (link_local, multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let unspecified = format!("may not be unspecified ({value})");
    [
        (ip.is_unspecified(), unspecified.as_str()),
        (
            ip.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ]
    .into_iter()
    .filter(|(broken, _)| *broken)
    .map(|(_, why)| FieldError::invalid(field, value, why))
    .collect()
}

fn without_leading_zeros(value: &str) -> Option<IpAddr> {
    let trimmed: Vec<String> = value
        .split('.')
        .map(|octet| octet.parse::<u16>().map(|n| n.to_string()).unwrap_or_default())
        .collect();
    trimmed.join(".").parse().ok()
}

/// A network prefix and its length.
pub(super) fn parse_cidr(value: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = value.split_once('/')?;
    let address = address
        .parse::<IpAddr>()
        .ok()
        .or_else(|| without_leading_zeros(address))?;
    let length = length.parse::<u8>().ok()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// A prefix with no bit set beyond its length.
pub(super) fn cidr(value: &str, field: &str) -> Vec<FieldError> {
    let why = match parse_cidr(value) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(_) if !spelled_plainly(value) => "must not have leading 0s in IP or prefix length",
        Some((IpAddr::V6(v6), _)) if v6.to_ipv4_mapped().is_some() => "must not have an IPv4-mapped IPv6 address",
        Some((address, length)) if masked(address, length) != bits(address) => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return Vec::new(),
    };
    vec![FieldError::invalid(field, value, why)]
}

fn spelled_plainly(value: &str) -> bool {
    let Some((address, length)) = value.split_once('/') else {
        return false;
    };
    address.parse::<IpAddr>().is_ok() && (length == "0" || !length.starts_with(['0', '+']))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn masked(address: IpAddr, length: u8) -> u128 {
    match length {
        0 => 0,
        _ => bits(address) >> (128 - u32::from(length)) << (128 - u32::from(length)),
    }
}

/// Whether `inner` is a smaller part of `outer`.
pub(super) fn is_strict_subset(inner: (IpAddr, u8), outer: (IpAddr, u8)) -> bool {
    inner.0.is_ipv4() == outer.0.is_ipv4() && inner.1 > outer.1 && masked(inner.0, outer.1) == masked(outer.0, outer.1)
}

/// Conditions as `metav1.Condition` has them.
pub(super) fn conditions(conditions: &[Value], field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let kind = text(condition, &["type"]);
        let known = |earlier: &Value| text(earlier, &["type"]) == kind;
        if conditions[..index].iter().any(known) {
            errors.push(FieldError::duplicate(format!("{field}.type"), kind));
        }
        errors.extend(condition_parts(condition, &field));
    }
    errors
}

fn condition_parts(condition: &Value, field: &str) -> Vec<FieldError> {
    let part = |key: &str| (text(condition, &[key]), format!("{field}.{key}"));
    let (kind, kind_field) = part("type");
    let mut errors = invalid(&kind_field, kind, validation::label_key(kind));
    let (status, status_field) = part("status");
    errors.extend(one_of(&status_field, status, &["False", "True", "Unknown"]));
    if let Some(generation) = number(condition, &["observedGeneration"]).filter(|g| *g < 0) {
        let field = format!("{field}.observedGeneration");
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(field, generation, why));
    }
    if !has(condition, &["lastTransitionTime"]) {
        errors.push(FieldError::required(format!("{field}.lastTransitionTime"), ""));
    }
    let (reason, reason_field) = part("reason");
    if reason.is_empty() {
        errors.push(FieldError::required(&reason_field, ""));
    } else {
        errors.extend(invalid(&reason_field, reason, validation::condition_reason(reason)));
    }
    let (message, message_field) = part("message");
    for (text, field, max) in [(reason, reason_field, 1024), (message, message_field, 32 * 1024)] {
        if text.len() > max {
            errors.push(FieldError::too_long(field, max));
        }
    }
    errors
}

//! Pieces of Table cells that several kinds share: ages, selectors, containers.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::value::{has, list, members, text};

/// What the server prints for a moment it does not know.
pub(super) const UNKNOWN: &str = "<unknown>";
/// What the server prints for nothing.
pub(super) const NONE: &str = "<none>";

/// The object's name as a cell.
pub(super) fn name(object: &Value) -> Value {
    text(object, &["metadata", "name"]).into()
}

/// The object's age as a cell.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(text(object, &["metadata", "creationTimestamp"]), now).into()
}

/// Cells of a kind that prints nothing of its own.
pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

/// Cells of a kind the server has no printer for.
pub(super) fn name_and_creation(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, &["metadata", "creationTimestamp"]).into()]
}

/// How long ago `time` was.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => human(now.as_millisecond() - then.as_millisecond()),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// A duration as `kubectl get` shows it: two units at most, fewer the longer it is.
fn human(millis: i64) -> String {
    let seconds = millis / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |big: i64, unit: &str, small: i64, lesser: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{lesser}"),
    };
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// A label selector in the syntax of the `labelSelector` parameter.
pub(super) fn selector(selector: &Value) -> String {
    let mut requirements: Vec<(&str, String)> = members(selector, &["matchLabels"])
        .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or(""))))
        .collect();
    for expression in list(selector, &["matchExpressions"]) {
        let key = text(expression, &["key"]);
        let values: BTreeSet<&str> = list(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        let values: Vec<&str> = values.into_iter().collect();
        let printed = match text(expression, &["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        requirements.push((key, printed));
    }
    requirements.sort_by_key(|(key, _)| *key);
    requirements
        .into_iter()
        .map(|(_, printed)| printed)
        .collect::<Vec<_>>()
        .join(",")
}

/// [`selector`], with a word for the empty one.
pub(super) fn selector_or_none(value: &Value) -> String {
    or(&selector(value), NONE)
}

/// Labels as `k=v,k=v`.
pub(super) fn labels(object: &Value, path: &[&str]) -> String {
    let pairs: Vec<String> = members(object, path)
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    or(&pairs.join(","), NONE)
}

/// How long it was from `start` to `end`, or to now when there is no end.
pub(super) fn between(start: &str, end: &str, now: Timestamp) -> String {
    match end.parse() {
        Ok(end) => since(start, end),
        Err(_) => since(start, now),
    }
}

/// A number of seconds as a duration.
pub(super) fn seconds(seconds: i64) -> String {
    human(seconds.saturating_mul(1000))
}

/// A truth value that may be missing.
pub(super) fn boolean(value: &Value) -> &'static str {
    match value.as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
}

/// A flag as a cell; `otherwise` when there is none.
pub(super) fn flag(object: &Value, path: &[&str], otherwise: bool) -> Value {
    super::value::at(object, path).as_bool().unwrap_or(otherwise).into()
}

/// Names and images of the containers of a pod template.
pub(super) fn containers(object: &Value) -> [Value; 2] {
    containers_at(object, &["spec", "template", "spec", "containers"])
}

/// Names and images of the containers at `path`.
pub(super) fn containers_at(object: &Value, path: &[&str]) -> [Value; 2] {
    let containers = list(object, path);
    let join = |key: &str| containers.iter().map(|c| text(c, &[key])).collect::<Vec<_>>().join(",");
    [join("name").into(), join("image").into()]
}

/// Access modes in short, in a fixed order.
pub(super) fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    short
        .iter()
        .filter(|(long, _)| modes.iter().any(|mode| mode == long))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

/// `value`, or `otherwise` when it is empty.
pub(super) fn or(value: &str, otherwise: &str) -> String {
    if value.is_empty() {
        otherwise.to_owned()
    } else {
        value.to_owned()
    }
}

/// The first three of `items`, and how many more there are.
pub(super) fn first_three(items: &[String]) -> String {
    let shown = items.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    match items.len() {
        0 => "<unset>".to_owned(),
        n if n > 3 => format!("{shown} + {} more...", n - 3),
        _ => shown,
    }
}

/// An `IntOrString` as text.
pub(super) fn int_or_string(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A number as a cell; zero when there is none.
pub(super) fn count(object: &Value, path: &[&str]) -> Value {
    if has(object, path) {
        super::value::at(object, path).clone()
    } else {
        json!(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_show_at_most_two_units() {
        for (seconds, printed) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (601, "10m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (70_000_000, "2y80d"),
            (300_000_000, "9y"),
        ] {
            assert_eq!(human(seconds * 1000), printed, "{seconds}");
        }
    }

    #[test]
    fn selectors_print_sorted_by_key() {
        let value = json!({ "matchLabels": { "b": "1" }, "matchExpressions": [
            { "key": "a", "operator": "NotIn", "values": ["y", "x"] }, { "key": "c", "operator": "DoesNotExist" },
        ] });
        assert_eq!(selector(&value), "a notin (x,y),b=1,!c");
    }
}

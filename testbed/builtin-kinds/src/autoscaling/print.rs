//! The printed columns of autoscalers.

use jiff::Timestamp;
use serde_json::Value;

use super::super::print::{NONE, UNKNOWN, age, count, name};
use super::super::value::{at, has, list, number, text};

/// How many metrics are shown in full.
const SHOWN: usize = 2;

/// Cells of an autoscaler in the stored version.
pub(super) fn cells(scaler: &Value, now: Timestamp) -> Vec<Value> {
    let target = |key: &str| text(scaler, &["spec", "scaleTargetRef", key]);
    let least = number(scaler, &["spec", "minReplicas"]).map_or("<unset>".to_owned(), |least| least.to_string());
    vec![
        name(scaler),
        format!("{}/{}", target("kind"), target("name")).into(),
        metrics(scaler).into(),
        least.into(),
        count(scaler, &["spec", "maxReplicas"]),
        count(scaler, &["status", "currentReplicas"]),
        age(scaler, now),
    ]
}

fn metrics(scaler: &Value) -> String {
    let wanted = list(scaler, &["spec", "metrics"]);
    let current = list(scaler, &["status", "currentMetrics"]);
    if wanted.is_empty() {
        return NONE.to_owned();
    }
    let shown: Vec<String> = wanted
        .iter()
        .enumerate()
        .take(SHOWN)
        .map(|(index, metric)| shown(metric, current.get(index).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    match wanted.len() {
        n if n > SHOWN => format!("{shown} + {} more...", n - SHOWN),
        _ => shown,
    }
}

fn shown(metric: &Value, current: &Value) -> String {
    let source = match text(metric, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (metric, current) = (at(metric, &[source]), at(current, &[source, "current"]));
    let now = |key: &str| match at(current, &[key]) {
        Value::Null => UNKNOWN.to_owned(),
        Value::String(value) => value.clone(),
        value => format!("{value}%"),
    };
    let target = at(metric, &["target"]);
    let average = has(target, &["averageValue"]);
    let wanted = if average {
        text(target, &["averageValue"])
    } else {
        text(target, &["value"])
    };
    match source {
        "resource" | "containerResource" => {
            let resource = text(metric, &["name"]);
            if average {
                return format!("{resource}: {}/{wanted}", now("averageValue"));
            }
            let wanted =
                number(target, &["averageUtilization"]).map_or("<auto>".to_owned(), |percent| format!("{percent}%"));
            format!("{resource}: {}/{wanted}", now("averageUtilization"))
        }
        "pods" => format!("{}/{wanted}", now("averageValue")),
        _ if average => format!("{}/{wanted} (avg)", now("averageValue")),
        _ => format!("{}/{wanted}", now("value")),
    }
}

//! Between `autoscaling/v2`, which is stored, and `autoscaling/v1`, which keeps what it has no field
//! for in annotations.

use serde_json::{Map, Value, json};

use super::super::value::{at, has, list, number, set, text};
use super::metrics;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// All that v1 has fields for of wanted and of current metrics.
const TARGET_PERCENT: [&str; 2] = ["spec", "targetCPUUtilizationPercentage"];
const CURRENT_PERCENT: [&str; 2] = ["status", "currentCPUUtilizationPercentage"];

/// The v1 form of a v2 autoscaler.
pub(in super::super) fn to_v1(mut scaler: Value) -> Value {
    set(&mut scaler, &["apiVersion"], json!("autoscaling/v1"));
    forget_annotations(&mut scaler);
    let wanted = list(&scaler, &["spec", "metrics"]).to_vec();
    let current = list(&scaler, &["status", "currentMetrics"]).to_vec();
    let conditions = list(&scaler, &["status", "conditions"]).to_vec();
    let behavior = at(&scaler, &["spec", "behavior"]).clone();
    let others = wanted.iter().filter(|metric| cpu_target(metric).is_none());
    annotate_list(&mut scaler, METRICS, others.map(metrics::spec_to_v1));
    let shown = current.iter().map(metrics::status_to_v1);
    annotate_list(&mut scaler, CURRENT_METRICS, shown);
    let shown = conditions.iter().map(metrics::condition);
    annotate_list(&mut scaler, CONDITIONS, shown);
    if !behavior.is_null() {
        annotate(&mut scaler, BEHAVIOR, metrics::behavior(&behavior));
    }
    for path in [
        ["spec", "metrics"],
        ["spec", "behavior"],
        ["status", "currentMetrics"],
        ["status", "conditions"],
    ] {
        set(&mut scaler, &path, Value::Null);
    }
    let percent = wanted.iter().find_map(cpu_target);
    set_number(&mut scaler, &TARGET_PERCENT, percent);
    if has(&scaler, &["status"]) && !has(&scaler, &["status", "currentReplicas"]) {
        scaler["status"]["currentReplicas"] = json!(0);
    }
    let percent = current.iter().filter_map(cpu_current).next_back();
    set_number(&mut scaler, &CURRENT_PERCENT, percent);
    scaler
}

/// The v2 form of a v1 autoscaler.
pub(in super::super) fn from_v1(mut scaler: Value) -> Value {
    set(&mut scaler, &["apiVersion"], json!("autoscaling/v2"));
    let note = |key: &str| -> Value {
        let text = text(&scaler, &["metadata", "annotations", key]);
        serde_json::from_str(text).unwrap_or_default()
    };
    let mut wanted: Vec<Value> = list(&note(METRICS), &[]).iter().map(metrics::spec_from_v1).collect();
    let percent = number(&scaler, &TARGET_PERCENT);
    wanted.extend(percent.map(cpu_metric));
    if wanted.is_empty() {
        wanted.push(cpu_metric(super::DEFAULT_UTILIZATION));
    }
    let noted: Vec<Value> = list(&note(CURRENT_METRICS), &[])
        .iter()
        .map(metrics::status_from_v1)
        .collect();
    let percent = number(&scaler, &CURRENT_PERCENT);
    let current = if noted.is_empty() {
        percent.map(cpu_status).into_iter().collect()
    } else {
        noted
    };
    let (conditions, behavior) = (note(CONDITIONS), metrics::behavior_back(&note(BEHAVIOR)));
    forget_annotations(&mut scaler);
    set(&mut scaler, &TARGET_PERCENT, Value::Null);
    set(&mut scaler, &CURRENT_PERCENT, Value::Null);
    set(&mut scaler, &["spec", "metrics"], wanted.into());
    set(&mut scaler, &["spec", "behavior"], behavior);
    if has(&scaler, &["status"]) {
        set(&mut scaler, &["status", "conditions"], conditions);
        status_from_v1(&mut scaler["status"], current);
    }
    scaler
}

/// Go shows an unset list of metrics, and no count of none.
fn status_from_v1(status: &mut Value, current: Vec<Value>) {
    status["currentMetrics"] = if current.is_empty() {
        Value::Null
    } else {
        current.into()
    };
    if status["desiredReplicas"].is_null() {
        status["desiredReplicas"] = json!(0);
    }
    if status["currentReplicas"] == 0 {
        set(status, &["currentReplicas"], Value::Null);
    }
}

fn cpu_target(metric: &Value) -> Option<i64> {
    let cpu = text(metric, &["type"]) == "Resource" && text(metric, &["resource", "name"]) == "cpu";
    number(metric, &["resource", "target", "averageUtilization"]).filter(|_| cpu)
}

fn cpu_current(metric: &Value) -> Option<i64> {
    let cpu = text(metric, &["type"]) == "Resource" && text(metric, &["resource", "name"]) == "cpu";
    number(metric, &["resource", "current", "averageUtilization"]).filter(|_| cpu)
}

/// The metric that keeps the average use of the processor at `percent`.
pub(super) fn cpu_metric(percent: i64) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

fn cpu_status(percent: i64) -> Value {
    let current = json!({ "averageUtilization": percent });
    json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } })
}

fn set_number(scaler: &mut Value, path: &[&str], value: Option<i64>) {
    set(scaler, path, value.map_or(Value::Null, Value::from));
}

fn annotate_list(scaler: &mut Value, key: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    if !items.is_empty() {
        annotate(scaler, key, format!("[{}]", items.join(",")));
    }
}

fn annotate(scaler: &mut Value, key: &str, text: String) {
    set(scaler, &["metadata", "annotations", key], text.into());
}

fn forget_annotations(scaler: &mut Value) {
    for key in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        set(scaler, &["metadata", "annotations", key], Value::Null);
    }
    let empty = at(scaler, &["metadata", "annotations"])
        .as_object()
        .is_some_and(Map::is_empty);
    if empty {
        set(scaler, &["metadata", "annotations"], Value::Null);
    }
}

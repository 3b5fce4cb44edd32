//! One metric, condition or behaviour in the words of `autoscaling/v1` annotations, whose JSON is
//! written in the order of the Go fields.

use serde_json::{Value, json};

use super::super::shown;
use super::super::value::{at, has, list, set, text};

/// A v1 field and where v2 has it.
type Fields = &'static [(&'static str, &'static [&'static str])];

const SELECTOR: &[&str] = &["metric", "selector"];
const METRIC: &[&str] = &["metric", "name"];
const OBJECT: &[&str] = &["describedObject"];

const SPECS: [(&str, Fields); 5] = [
    (
        "object",
        &[
            ("target", OBJECT),
            ("metricName", METRIC),
            ("targetValue", &["target", "value"]),
            ("selector", SELECTOR),
            ("averageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", METRIC),
            ("targetAverageValue", &["target", "averageValue"]),
            ("selector", SELECTOR),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
            ("container", &["container"]),
        ],
    ),
    (
        "external",
        &[
            ("metricName", METRIC),
            ("metricSelector", SELECTOR),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
];

const STATUSES: [(&str, Fields); 5] = [
    (
        "object",
        &[
            ("target", OBJECT),
            ("metricName", METRIC),
            ("currentValue", &["current", "value"]),
            ("selector", SELECTOR),
            ("averageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", METRIC),
            ("currentAverageValue", &["current", "averageValue"]),
            ("selector", SELECTOR),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
            ("container", &["container"]),
        ],
    ),
    (
        "external",
        &[
            ("metricName", METRIC),
            ("metricSelector", SELECTOR),
            ("currentValue", &["current", "value"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
];

/// Quantities Go cannot leave out.
fn always_shown(source: &str, key: &str) -> bool {
    matches!(
        (source, key),
        ("object", "targetValue" | "currentValue")
            | ("pods", "targetAverageValue" | "currentAverageValue")
            | ("resource" | "containerResource", "currentAverageValue")
            | ("external", "currentValue")
    )
}

/// A wanted metric as v1 text.
pub(super) fn spec_to_v1(metric: &Value) -> String {
    to_v1(metric, &SPECS)
}

/// A measured metric as v1 text.
pub(super) fn status_to_v1(metric: &Value) -> String {
    to_v1(metric, &STATUSES)
}

fn to_v1(metric: &Value, sources: &[(&str, Fields)]) -> String {
    let mut members = vec![("type", at(metric, &["type"]).to_string())];
    for (source, fields) in sources {
        if !has(metric, &[source]) {
            continue;
        }
        let mut inner = Vec::new();
        for (key, path) in *fields {
            let value = at(metric, &[source]);
            let shown = match at(value, path) {
                Value::Null if always_shown(source, key) => "\"0\"".to_owned(),
                Value::Null => continue,
                object if *path == OBJECT => reference(object),
                selector if *path == SELECTOR => shown::selector(selector),
                other => other.to_string(),
            };
            inner.push((*key, shown));
        }
        members.push((source, shown::object(&inner)));
    }
    shown::object(&members)
}

fn reference(object: &Value) -> String {
    let part = |key: &'static str| (key, at(object, &[key]).to_string());
    let mut members = vec![part("kind"), part("name")];
    if has(object, &["apiVersion"]) {
        members.push(part("apiVersion"));
    }
    shown::object(&members)
}

/// A wanted metric from v1.
pub(super) fn spec_from_v1(metric: &Value) -> Value {
    let mut back = from_v1(metric, &SPECS);
    for (source, _) in SPECS {
        if !has(&back, &[source]) {
            continue;
        }
        let target = at(&back, &[source, "target"]);
        let average = has(target, &["averageValue"]);
        let kind = match source {
            "resource" | "containerResource" if has(target, &["averageUtilization"]) => "Utilization",
            "resource" | "containerResource" | "pods" => "AverageValue",
            "external" if has(target, &["value"]) => "Value",
            "object" if !average => "Value",
            _ => "AverageValue",
        };
        // A zero beside an average only stands for nothing.
        if source == "object" && average && text(target, &["value"]) == "0" {
            set(&mut back, &[source, "target", "value"], Value::Null);
        }
        set(&mut back, &[source, "target", "type"], json!(kind));
    }
    back
}

/// A measured metric from v1.
pub(super) fn status_from_v1(metric: &Value) -> Value {
    from_v1(metric, &STATUSES)
}

fn from_v1(metric: &Value, sources: &[(&str, Fields)]) -> Value {
    let mut back = json!({ "type": text(metric, &["type"]) });
    for (source, fields) in sources {
        for (key, path) in *fields {
            let value = at(metric, &[source, key]);
            if !value.is_null() {
                let path: Vec<&str> = std::iter::once(*source).chain(path.iter().copied()).collect();
                set(&mut back, &path, value.clone());
            }
        }
    }
    back
}

/// A condition as v1 text.
pub(super) fn condition(condition: &Value) -> String {
    let mut members = Vec::new();
    for key in ["type", "status", "lastTransitionTime", "reason", "message"] {
        let value = at(condition, &[key]);
        if !value.is_null() || key == "lastTransitionTime" {
            members.push((key, value.to_string()));
        }
    }
    shown::object(&members)
}

const RULES: [(&str, &str); 4] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const POLICY: [(&str, &str); 3] = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

/// A behaviour as the server writes it down: with the names of its internal Go type.
pub(super) fn behavior(behavior: &Value) -> String {
    let policy = |policy: &Value| {
        let part = |(go, json): (&'static str, &str)| (go, at(policy, &[json]).to_string());
        shown::object(&POLICY.map(part))
    };
    let rules = |rules: &Value| match rules {
        Value::Null => "null".to_owned(),
        rules => {
            let part = |(go, json): (&'static str, &str)| match at(rules, &[json]) {
                Value::Array(policies) => {
                    let shown: Vec<String> = policies.iter().map(policy).collect();
                    (go, format!("[{}]", shown.join(",")))
                }
                value => (go, value.to_string()),
            };
            shown::object(&RULES.map(part))
        }
    };
    shown::object(&[
        ("ScaleUp", rules(at(behavior, &["scaleUp"]))),
        ("ScaleDown", rules(at(behavior, &["scaleDown"]))),
    ])
}

/// The v2 form of [`behavior`]; null when there is none.
pub(super) fn behavior_back(behavior: &Value) -> Value {
    let mut back = Value::Null;
    for (go, json_key) in [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")] {
        let rules = at(behavior, &[go]);
        if rules.is_null() {
            continue;
        }
        let mut shown = json!({});
        for (go, key) in RULES {
            set(&mut shown, &[key], at(rules, &[go]).clone());
        }
        let policies: Vec<Value> = list(rules, &["Policies"])
            .iter()
            .map(|policy| {
                let mut shown = json!({});
                for (go, key) in POLICY {
                    set(&mut shown, &[key], at(policy, &[go]).clone());
                }
                shown
            })
            .collect();
        if !policies.is_empty() {
            set(&mut shown, &["policies"], policies.into());
        }
        if back.is_null() {
            back = json!({});
        }
        set(&mut back, &[json_key], shown);
    }
    back
}

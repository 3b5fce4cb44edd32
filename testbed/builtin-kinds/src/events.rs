//! Events: one object in two forms, `v1` and `events.k8s.io/v1`. The first is the stored one.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::behavior::KindBehavior;
use super::check;
use super::print::{name, or, since};
use super::shown;
use super::value::{at, has, number, text};

/// How events of the core group behave.
pub(super) const CORE: KindBehavior = KindBehavior {
    validate: |event| validate_legacy(event, "reportingComponent"),
    create_on_update: true,
    selectable: core_fields,
    cells,
    ..KindBehavior::PLAIN
};

/// How events of `events.k8s.io` behave: new ones are held to stricter rules.
pub(super) const NEW: KindBehavior = KindBehavior {
    validate: |event| validate_new(&to_core(event.clone())),
    validate_update: |new, old, _: Part| validate_change(&to_core(new.clone()), &to_core(old.clone())),
    validates_updates: false,
    create_on_update: true,
    selectable: |event| {
        let renamed = |(key, value): (String, String)| match key.as_str() {
            "reportingComponent" => Some(("reportingController".to_owned(), value)),
            "source" => None,
            _ => Some((key.replace("involvedObject.", "regarding."), value)),
        };
        core_fields(&to_core(event.clone()))
            .into_iter()
            .filter_map(renamed)
            .collect()
    },
    cells: |event, now| cells(&to_core(event.clone()), now),
    ..KindBehavior::PLAIN
};

/// Names in `events.k8s.io/v1` and in `v1`.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

/// From `events.k8s.io/v1` to `v1`.
pub(super) fn to_core(event: Value) -> Value {
    let renamed = rename(event, |key| {
        RENAMED.iter().find(|(new, _)| *new == key).map(|(_, core)| *core)
    });
    shaped(
        renamed,
        "v1",
        &[("reportingComponent", json!("")), ("reportingInstance", json!(""))],
    )
}

/// From `v1` to `events.k8s.io/v1`.
pub(super) fn from_core(event: Value) -> Value {
    let renamed = rename(event, |key| {
        RENAMED.iter().find(|(_, core)| *core == key).map(|(new, _)| *new)
    });
    let mut event = shaped(renamed, "events.k8s.io/v1", &[]);
    if let Value::Object(members) = &mut event {
        members.retain(|key, value| !(key.starts_with("reporting") && value == ""));
    }
    event
}

fn rename(event: Value, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    match event {
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (name(&key).map_or(key.clone(), str::to_owned), value))
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}

fn shaped(mut event: Value, version: &str, shown: &[(&str, Value)]) -> Value {
    if let Value::Object(members) = &mut event {
        members.insert("apiVersion".into(), version.into());
        for (key, value) in shown {
            members.entry(*key).or_insert_with(|| value.clone());
        }
    }
    event
}

fn core_fields(event: &Value) -> Vec<(String, String)> {
    let object = [
        "kind",
        "namespace",
        "name",
        "uid",
        "apiVersion",
        "resourceVersion",
        "fieldPath",
    ];
    let source = or(
        text(event, &["source", "component"]),
        text(event, &["reportingComponent"]),
    );
    object
        .iter()
        .map(|key| {
            (
                format!("involvedObject.{key}"),
                text(event, &["involvedObject", key]).to_owned(),
            )
        })
        .chain(
            ["reason", "reportingComponent", "type"]
                .iter()
                .map(|key| ((*key).to_owned(), text(event, &[key]).to_owned())),
        )
        .chain([("source".to_owned(), source)])
        .collect()
}

fn validate_legacy(event: &Value, controller: &str) -> Vec<FieldError> {
    let namespace = text(event, &["metadata", "namespace"]);
    let about = text(event, &["involvedObject", "namespace"]);
    let old_form = !has(event, &["eventTime"]);
    let agrees = match (about.is_empty(), old_form) {
        (true, true) => matches!(namespace, "" | "default"),
        (false, true) => namespace == about,
        (true, false) => matches!(namespace, "default" | "kube-system"),
        (false, false) => true,
    };
    let mut errors = Vec::new();
    if !agrees {
        let why = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", about, why));
    }
    if !old_form {
        errors.extend(validate_fields(event, controller));
    }
    errors.extend(check::invalid(
        "namespace",
        namespace,
        validation::dns_subdomain(namespace, false),
    ));
    errors
}

fn validate_fields(event: &Value, controller: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let reporter = text(event, &["reportingComponent"]);
    if reporter.is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    errors.extend(check::invalid(controller, reporter, validation::label_key(reporter)));
    for (key, limit, required) in [
        ("reportingInstance", 128, true),
        ("action", 128, true),
        ("reason", 128, true),
        ("message", 1024, false),
    ] {
        let length = text(event, &[key]).len();
        if required && length == 0 {
            errors.push(FieldError::required(key, ""));
        }
        if length > limit {
            errors.push(FieldError::invalid(
                key,
                "",
                format!("can have at most {limit} characters"),
            ));
        }
    }
    errors
}

fn validate_new(event: &Value) -> Vec<FieldError> {
    let mut errors = validate_legacy(event, "reportingController");
    errors.extend(validate_series(event));
    if !has(event, &["eventTime"]) {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(event, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    for key in ["firstTimestamp", "lastTimestamp"] {
        if has(event, &[key]) {
            errors.push(FieldError::invalid(key, "", "needs to be unset"));
        }
    }
    if number(event, &["count"]).unwrap_or(0) != 0 {
        errors.push(FieldError::invalid("count", "", "needs to be unset"));
    }
    if has(event, &["source", "component"]) || has(event, &["source", "host"]) {
        errors.push(FieldError::invalid("source", "", "needs to be unset"));
    }
    errors
}

fn validate_series(event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if has(event, &["series"]) {
        if number(event, &["series", "count"]).unwrap_or(0) < 2 {
            errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
        }
        if !has(event, &["series", "lastObservedTime"]) {
            errors.push(FieldError::required("series.lastObservedTime", ""));
        }
    }
    errors
}

fn validate_change(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_legacy(new, "reportingController");
    if at(new, &["series"]) != at(old, &["series"]) {
        errors.extend(validate_series(new));
    }
    for key in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        if key == "involvedObject" && at(new, &[key]) != at(old, &[key]) {
            let raw = shown_reference(at(new, &[key]));
            errors.push(shown::invalid(key, &raw, "field is immutable"));
            continue;
        }
        for mut error in check::immutable(new, old, &[key]) {
            if key == "reportingComponent" {
                error.field = "reportingController".to_owned();
            }
            errors.push(error);
        }
    }
    errors
}

fn shown_reference(reference: &Value) -> String {
    let members = [
        "kind",
        "namespace",
        "name",
        "uid",
        "apiVersion",
        "resourceVersion",
        "fieldPath",
    ];
    let spelled = [
        "Kind",
        "Namespace",
        "Name",
        "UID",
        "APIVersion",
        "ResourceVersion",
        "FieldPath",
    ];
    let member = |(key, go)| (go, Value::from(text(reference, &[key])).to_string());
    shown::object(&members.into_iter().zip(spelled).map(member).collect::<Vec<_>>())
}

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let (first, last, count) = occurrences(event, now);
    let kind = text(event, &["involvedObject", "kind"]).to_lowercase();
    let target = match text(event, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |old: &str, new: &str| or(text(event, &["source", old]), text(event, &[new]));
    let instance = either("host", "reportingInstance");
    let mut source = either("component", "reportingComponent");
    if !instance.is_empty() {
        source = format!("{source}, {instance}");
    }
    vec![
        last.into(),
        text(event, &["type"]).into(),
        text(event, &["reason"]).into(),
        target.into(),
        text(event, &["involvedObject", "fieldPath"]).into(),
        source.into(),
        text(event, &["message"]).trim().into(),
        first.into(),
        count.into(),
        name(event),
    ]
}

/// When an event was first and last seen, and how often.
fn occurrences(event: &Value, now: Timestamp) -> (String, String, i64) {
    let ago = |path: &[&str]| since(text(event, path), now);
    let at_first = if has(event, &["firstTimestamp"]) {
        "firstTimestamp"
    } else {
        "eventTime"
    };
    let first = ago(&[at_first]);
    if has(event, &["series"]) {
        let count = number(event, &["series", "count"]).unwrap_or(0);
        return (first, ago(&["series", "lastObservedTime"]), count);
    }
    let last = if has(event, &["lastTimestamp"]) {
        ago(&["lastTimestamp"])
    } else {
        first.clone()
    };
    (
        first,
        last,
        number(event, &["count"]).filter(|count| *count != 0).unwrap_or(1),
    )
}

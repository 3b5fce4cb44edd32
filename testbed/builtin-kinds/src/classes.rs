//! Priority classes and runtime classes: what a Pod may name.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::check;
use super::pods::{resource_requirements, tolerations};
use super::print::{age, count, flag, name};
use super::value::{at, default_to, number, text};

/// What users may give; above are the classes of the system.
const HIGHEST: i64 = 1_000_000_000;
/// The classes of the system, with their values.
pub(super) const SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

/// How priority classes behave.
pub(super) const PRIORITY_CLASS: KindBehavior = KindBehavior {
    default: |class| default_to(class, "preemptionPolicy", "PreemptLowerPriority"),
    validate: priority_class,
    validate_update: |new, old, _| {
        let mut errors = Vec::new();
        if at(new, &["value"]) != at(old, &["value"]) {
            let why = "may not be changed in an update.";
            errors.push(FieldError::forbidden("value", why));
        }
        errors.extend(check::immutable(new, old, &["preemptionPolicy"]));
        errors
    },
    validates_updates: false,
    // Every field that is not metadata is fixed, so the generation stays at one.
    generation: &[&["value"]],
    cells: |class, now| {
        vec![
            name(class),
            count(class, &["value"]),
            flag(class, &["globalDefault"], false),
            age(class, now),
            text(class, &["preemptionPolicy"]).into(),
        ]
    },
    ..KindBehavior::PLAIN
};

/// How runtime classes behave.
pub(super) const RUNTIME_CLASS: KindBehavior = KindBehavior {
    default: |class| super::pods::defaults::resource_list(class, &["overhead", "podFixed"]),
    validate: runtime_class,
    validate_update: |new, old, _| check::immutable(new, old, &["handler"]),
    unconditional: false,
    create_on_update: true,
    cells: |class, now| {
        let handler = text(class, &["handler"]);
        vec![name(class), handler.into(), age(class, now)]
    },
    ..KindBehavior::PLAIN
};

fn priority_class(class: &Value) -> Vec<FieldError> {
    let value = number(class, &["value"]).unwrap_or(0);
    let mut errors = Vec::new();
    let own_name = text(class, &["metadata", "name"]);
    if own_name.starts_with("system-") {
        errors.extend(reserved(class, own_name, value));
    } else if value > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(FieldError::forbidden("value", why));
    }
    let policy = text(class, &["preemptionPolicy"]);
    let allowed = &["PreemptLowerPriority", "Never"];
    errors.extend(check::one_of("preemptionPolicy", policy, allowed));
    errors
}

fn reserved(class: &Value, own_name: &str, value: i64) -> Option<FieldError> {
    let why = match SYSTEM.iter().find(|(known, _)| *known == own_name) {
        None => format!("{own_name} is not a known system priority class"),
        Some((_, known)) if *known != value => {
            format!("value of {own_name} PriorityClass must be {known}")
        }
        Some(_) if at(class, &["globalDefault"]) == &json!(true) => {
            format!("globalDefault of {own_name} PriorityClass must be false")
        }
        Some(_) => return None,
    };
    let why = format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
    Some(FieldError::forbidden("metadata.name", why))
}

fn runtime_class(class: &Value) -> Vec<FieldError> {
    let mut errors = match text(class, &["handler"]) {
        "" => vec![FieldError::required("handler", "")],
        handler => check::invalid("handler", handler, validation::dns_label(handler, false)),
    };
    let overhead = json!({ "limits": at(class, &["overhead", "podFixed"]) });
    errors.extend(resource_requirements(&overhead, "overhead"));
    let selector = "scheduling.nodeSelector";
    errors.extend(check::labels(class, &["scheduling", "nodeSelector"], selector));
    errors.extend(tolerations(at(class, &["scheduling"]), "scheduling"));
    errors
}

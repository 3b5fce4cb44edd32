//! Flow schemas and priority levels: stored and printed. The box does not queue requests by them.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use jiff::Timestamp;
use serde_json::Value;

use super::behavior::{KindBehavior, SPEC_AND_METADATA};
use super::print::{NONE, age, count, name, or};
use super::value::{at, default_to, has, list, number, text};
use super::{check, require};

mod rules;

/// How many queues a level may have.
const MAX_QUEUES: i64 = 10_000_000;

/// How flow schemas behave.
pub(super) const FLOW_SCHEMA: KindBehavior = KindBehavior {
    default: |schema| {
        if let Some(spec) = schema.get_mut("spec")
            && number(spec, &["matchingPrecedence"]).unwrap_or(0) == 0
        {
            spec["matchingPrecedence"] = 1000.into();
        }
    },
    validate: rules::schema,
    validate_update: |new, _, part| match part {
        Part::Main => rules::schema(new),
        Part::Status => Vec::new(),
    },
    validates_updates: false,
    generation: &[&["spec"]],
    fixed_by_status: SPEC_AND_METADATA,
    unowned_by_status: &[&["spec"], &["metadata"]],
    cells: schema_cells,
    row_order: Some(|one, other| precedence(one).cmp(&precedence(other))),
    ..KindBehavior::PLAIN
};

/// How priority levels behave.
pub(super) const PRIORITY_LEVEL: KindBehavior = KindBehavior {
    default: default_level,
    validate: level,
    validate_update: |new, _, part| match part {
        Part::Main => level(new),
        Part::Status => Vec::new(),
    },
    validates_updates: false,
    generation: &[&["spec"]],
    fixed_by_status: SPEC_AND_METADATA,
    unowned_by_status: &[&["spec"], &["metadata"]],
    cells: level_cells,
    ..KindBehavior::PLAIN
};

/// Which of two flow schemas is asked first.
fn precedence(schema: &Value) -> (i64, &str) {
    let precedence = number(schema, &["spec", "matchingPrecedence"]).unwrap_or(0);
    (precedence, text(schema, &["metadata", "name"]))
}

fn schema_cells(schema: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = list(schema, &["status", "conditions"])
        .iter()
        .find(|condition| text(condition, &["type"]) == "Dangling")
        .map_or("?", |condition| text(condition, &["status"]));
    vec![
        name(schema),
        text(schema, &["spec", "priorityLevelConfiguration", "name"]).into(),
        count(schema, &["spec", "matchingPrecedence"]),
        or(text(schema, &["spec", "distinguisherMethod", "type"]), NONE).into(),
        age(schema, now),
        dangling.into(),
    ]
}

fn level_cells(level: &Value, now: Timestamp) -> Vec<Value> {
    let limited = at(level, &["spec", "limited"]);
    let queuing = at(limited, &["limitResponse", "queuing"]);
    let shown = |value: &Value| match value {
        Value::Null => Value::from(NONE),
        value => value.clone(),
    };
    vec![
        name(level),
        text(level, &["spec", "type"]).into(),
        shown(at(limited, &["nominalConcurrencyShares"])),
        shown(at(queuing, &["queues"])),
        shown(at(queuing, &["handSize"])),
        shown(at(queuing, &["queueLengthLimit"])),
        age(level, now),
    ]
}

fn default_level(level: &mut Value) {
    for (kind, shares) in [("limited", 30), ("exempt", 0)] {
        if let Some(part) = level.pointer_mut(&format!("/spec/{kind}")) {
            default_to(part, "nominalConcurrencyShares", shares);
            default_to(part, "lendablePercent", 0);
        }
    }
    if let Some(queuing) = level.pointer_mut("/spec/limited/limitResponse/queuing") {
        for (key, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            if number(queuing, &[key]).unwrap_or(0) == 0 {
                queuing[key] = value.into();
            }
        }
    }
}

fn level(level: &Value) -> Vec<FieldError> {
    let spec = at(level, &["spec"]);
    let kind = text(spec, &["type"]);
    let mut errors = Vec::new();
    let exempt = text(level, &["metadata", "name"]) == "exempt";
    if exempt != (kind == "Exempt") {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid("spec.type", kind, why));
    }
    let forbidden = |key: &str, why: &str| has(spec, &[key]).then(|| FieldError::forbidden(format!("spec.{key}"), why));
    match kind {
        "Exempt" => {
            errors.extend(forbidden("limited", "must be nil if the type is not Limited"));
            errors.extend(shares(at(spec, &["exempt"]), "spec.exempt"));
        }
        "Limited" => {
            errors.extend(forbidden("exempt", "must be nil if the type is Limited"));
            if has(spec, &["limited"]) {
                errors.extend(limited(at(spec, &["limited"])));
            } else {
                let why = "must not be empty when type is Limited";
                errors.push(FieldError::required("spec.limited", why));
            }
        }
        "" => errors.push(FieldError::required("spec.type", "")),
        other => errors.extend(check::one_of("spec.type", other, &["Exempt", "Limited"])),
    }
    errors
}

fn shares(part: &Value, field: &str) -> Option<FieldError> {
    let why = "must be a non-negative integer";
    require::holds(part, "nominalConcurrencyShares", field, |n| n >= 0, why)
}

fn limited(part: &Value) -> Vec<FieldError> {
    let field = "spec.limited";
    let mut errors: Vec<FieldError> = shares(part, field).into_iter().collect();
    errors.extend(response(at(part, &["limitResponse"]), "spec.limited.limitResponse"));
    let why = "must be between 0 and 100, inclusive";
    errors.extend(require::holds(
        part,
        "lendablePercent",
        field,
        |n| (0..=100).contains(&n),
        why,
    ));
    let why = "if specified, must be a non-negative integer";
    errors.extend(require::holds(part, "borrowingLimitPercent", field, |n| n >= 0, why));
    errors
}

fn response(response: &Value, field: &str) -> Vec<FieldError> {
    let queuing = at(response, &["queuing"]);
    let queuing_field = format!("{field}.queuing");
    match text(response, &["type"]) {
        "Reject" if !queuing.is_null() => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            vec![FieldError::forbidden(queuing_field, why)]
        }
        "Reject" => Vec::new(),
        "Queue" if queuing.is_null() => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            vec![FieldError::required(queuing_field, why)]
        }
        "Queue" => validate_queuing(queuing, &queuing_field),
        "" => vec![FieldError::required(format!("{field}.type"), "")],
        other => check::one_of(&format!("{field}.type"), other, &["Queue", "Reject"]),
    }
}

fn validate_queuing(queuing: &Value, field: &str) -> Vec<FieldError> {
    let count = |key: &str| number(queuing, &[key]).unwrap_or(0);
    let mut errors = Vec::new();
    for key in ["queueLengthLimit", "queues", "handSize"] {
        errors.extend(require::holds(queuing, key, field, |n| n > 0, "must be positive"));
    }
    let (queues, hand) = (count("queues"), count("handSize"));
    if queues > MAX_QUEUES {
        let why = format!("must not be greater than {MAX_QUEUES}");
        errors.push(FieldError::invalid(format!("{field}.queues"), queues, why));
    }
    if hand > queues && queues > 0 {
        let why = format!("should not be greater than queues ({queues})");
        errors.push(FieldError::invalid(format!("{field}.handSize"), hand, why));
    }
    errors
}

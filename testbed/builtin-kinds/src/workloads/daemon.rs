//! Daemon sets: defaults, rules and printed columns.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::behavior::KindBehavior;
use super::super::pods;
use super::super::pods::warnings::template_at;
use super::super::print::{age, containers, count, labels, name, selector_or_none};
use super::super::value::{at, default_to, number, restore, set, text};
use super::super::{check, shown};
use super::template_not_picked;
use super::{collisions_decremented, default_template, picks, selector_not_empty, selector_stays};

/// What older clients count changes of the template in.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// How daemon sets behave.
pub(in super::super) const DAEMON_SET: KindBehavior = KindBehavior {
    default,
    prepare_create: |daemons| {
        if template_generation(daemons) < 1 {
            set_template_generation(daemons, 1);
        }
    },
    prepare_update: |new, old, part| {
        if part == Part::Main {
            let path = ["spec", "template"];
            let moved = i64::from(at(new, &path) != at(old, &path));
            set_template_generation(new, template_generation(old) + moved);
        } else {
            restore(new, old, &["metadata", "annotations", TEMPLATE_GENERATION]);
        }
    },
    validate: spec,
    validate_update: update,
    validates_updates: false,
    generation: &[&["spec"]],
    versioned_annotations: &[TEMPLATE_GENERATION],
    cells,
    warnings: |daemons| template_at(daemons, &["spec", "template"]),
    update_warnings: |new, old| {
        if template_generation(new) == template_generation(old) {
            return Vec::new();
        }
        template_at(new, &["spec", "template"])
    },
    ..KindBehavior::PLAIN
};

fn template_generation(daemons: &Value) -> i64 {
    let noted = text(daemons, &["metadata", "annotations", TEMPLATE_GENERATION]);
    noted.parse().unwrap_or(0)
}

fn set_template_generation(daemons: &mut Value, generation: i64) {
    let path = ["metadata", "annotations", TEMPLATE_GENERATION];
    set(daemons, &path, generation.to_string().into());
}

fn default(daemons: &mut Value) {
    default_template(daemons);
    // Whoever writes the object owns the count, which the server sets.
    if text(daemons, &["metadata", "annotations", TEMPLATE_GENERATION]).is_empty() {
        set_template_generation(daemons, 0);
    }
    let Some(spec) = daemons.get_mut("spec") else {
        return;
    };
    let strategy = &mut spec["updateStrategy"];
    default_to(strategy, "type", "RollingUpdate");
    if text(strategy, &["type"]) == "RollingUpdate" {
        default_to(strategy, "rollingUpdate", json!({}));
        default_to(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        default_to(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
    // What goes unused is no pointer inside the server: it comes back as 0.
    if strategy["rollingUpdate"].is_object() {
        default_to(&mut strategy["rollingUpdate"], "maxUnavailable", 0);
        default_to(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
    default_to(spec, "revisionHistoryLimit", 10);
}

fn spec(daemons: &Value) -> Vec<FieldError> {
    let spec = at(daemons, &["spec"]);
    let (wanted, template) = (at(spec, &["selector"]), at(spec, &["template"]));
    let mut errors = check::label_selector(wanted, "spec.selector");
    let labels = at(template, &["metadata", "labels"]);
    if errors.is_empty() && !picks(wanted, labels) {
        errors.push(template_not_picked(labels, "spec.template"));
    }
    errors.extend(selector_not_empty(wanted, "daemonset"));
    errors.extend(pods::running_template(template, "spec.template", "DaemonSet"));
    errors.extend(check::nonnegative(spec, &["minReadySeconds"], "spec.minReadySeconds"));
    errors.extend(strategy(at(spec, &["updateStrategy"])));
    let limit = "revisionHistoryLimit";
    errors.extend(check::nonnegative(spec, &[limit], "spec.revisionHistoryLimit"));
    errors
}

fn strategy(strategy: &Value) -> Vec<FieldError> {
    let rolling = at(strategy, &["rollingUpdate"]);
    match text(strategy, &["type"]) {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => rolling_update(rolling, "spec.updateStrategy.rollingUpdate"),
        other => {
            let kind = Value::from(other).to_string();
            let rolling = super::shown_rolling(rolling);
            let shown = shown::object(&[("Type", kind), ("RollingUpdate", rolling)]);
            let allowed = &["RollingUpdate", "OnDelete"];
            vec![shown::not_supported("spec.updateStrategy", &shown, allowed)]
        }
    }
}

fn rolling_update(rolling: &Value, field: &str) -> Vec<FieldError> {
    let keys = ["maxUnavailable", "maxSurge"];
    let mut errors = Vec::new();
    for rule in [check::int_or_percent, check::at_most_100_percent] {
        for key in keys {
            errors.extend(rule(at(rolling, &[key]), &format!("{field}.{key}")));
        }
    }
    let [gone, more] = keys.map(|key| {
        let value = at(rolling, &[key]);
        check::percent_value(value).or_else(|| value.as_i64()).unwrap_or(0) != 0
    });
    if gone && more {
        let why = "may not be set when maxUnavailable is non-zero";
        let surge = at(rolling, &["maxSurge"]).to_string();
        errors.push(shown::invalid(format!("{field}.maxSurge"), &surge, why));
    } else if !gone && !more {
        let why = "cannot be 0 when maxSurge is 0";
        errors.push(FieldError::required(format!("{field}.maxUnavailable"), why));
    }
    errors
}

fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Main {
        let mut errors = selector_stays(new, old);
        errors.extend(spec(new));
        return errors;
    }
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    let negative = |key: &&str| number(new, &["status", key]).is_some_and(|count| count < 0);
    let mut errors: Vec<FieldError> = counts
        .iter()
        .filter(|key| negative(key))
        .flat_map(|key| check::nonnegative(new, &["status", key], &format!("status.{key}")))
        .collect();
    errors.extend(collisions_decremented(new, old));
    errors
}

fn cells(set: &Value, now: Timestamp) -> Vec<Value> {
    let status = |key: &str| count(set, &["status", key]);
    let [names, images] = containers(set);
    vec![
        name(set),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(set, &["spec", "template", "spec", "nodeSelector"]).into(),
        age(set, now),
        names,
        images,
        selector_or_none(at(set, &["spec", "selector"])).into(),
    ]
}

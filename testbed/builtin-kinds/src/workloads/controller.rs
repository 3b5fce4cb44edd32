//! Replication controllers, pod templates and controller revisions.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::behavior::KindBehavior;
use super::super::pods::defaults::pod_spec;
use super::super::pods::warnings::{self, template_at};
use super::super::pods::{running_template, validate_template};
use super::super::print::{NONE, age, containers, containers_at, count, labels, name};
use super::super::value::{at, default_to, has, list, members, set, text};
use super::super::{check, shown};
use super::{default_template, replica_counts, template_not_picked, template_warnings};

/// How replication controllers behave.
pub(in super::super) const REPLICATION_CONTROLLER: KindBehavior = KindBehavior {
    default: default_controller,
    validate: validate_controller,
    validate_update: |new, _, part| match part {
        Part::Main => validate_controller(new),
        Part::Status => controller_status(new),
    },
    validates_updates: false,
    // Only the name that was made of a prefix is looked at.
    name: |name, prefix| {
        if prefix {
            return Vec::new();
        }
        validation::dns_subdomain(name, false)
    },
    generation: &[&["spec"]],
    warnings: warnings::workload,
    update_warnings: template_warnings,
    selectable: |controller| {
        let replicas = count(controller, &["status", "replicas"]).to_string();
        vec![("status.replicas".to_owned(), replicas)]
    },
    cells: controller_cells,
    ..KindBehavior::PLAIN
};

/// How pod templates behave.
pub(in super::super) const POD_TEMPLATE: KindBehavior = KindBehavior {
    default: |template| {
        if let Some(spec) = template.pointer_mut("/template/spec") {
            pod_spec(spec);
        }
    },
    validate: |template| validate_template(at(template, &["template"]), "template"),
    warnings: |template| template_at(template, &["template"]),
    update_warnings: |new, old| {
        if at(new, &["template"]) == at(old, &["template"]) {
            return Vec::new();
        }
        template_at(new, &["template"])
    },
    generation: &[&["template"]],
    cells: |template, _| {
        let [names, images] = containers_at(template, &["template", "spec", "containers"]);
        let shown = labels(template, &["template", "metadata", "labels"]);
        vec![name(template), names, images, shown.into()]
    },
    ..KindBehavior::PLAIN
};

/// How controller revisions behave.
pub(in super::super) const CONTROLLER_REVISION: KindBehavior = KindBehavior {
    validate: |revision| {
        let mut errors = check::nonnegative(revision, &["revision"], "revision");
        let why = match at(revision, &["data"]) {
            Value::Null => "data is mandatory",
            Value::Object(_) => return errors,
            _ => "data must be a valid JSON object",
        };
        errors.push(FieldError::required("data", why));
        errors
    },
    validate_update: |new, old, _| {
        let mut errors = check::nonnegative(new, &["revision"], "revision");
        if at(new, &["data"]) != at(old, &["data"]) {
            // The bytes of the data, which is what the server holds.
            let shown = at(new, &["data"]).to_string();
            errors.push(shown::invalid("data", &shown, "field is immutable"));
        }
        errors
    },
    validates_updates: false,
    cells: revision_cells,
    ..KindBehavior::PLAIN
};

fn default_controller(controller: &mut Value) {
    default_template(controller);
    let labels = at(controller, &["spec", "template", "metadata", "labels"]).clone();
    if labels.is_object() {
        for path in [["spec", "selector"], ["metadata", "labels"]] {
            if members(controller, &path).next().is_none() {
                set(controller, &path, labels.clone());
            }
        }
    }
    if let Some(spec) = controller.get_mut("spec") {
        default_to(spec, "replicas", 1);
    }
}

fn validate_controller(controller: &Value) -> Vec<FieldError> {
    let spec = at(controller, &["spec"]);
    let mut errors = check::nonnegative(spec, &["minReadySeconds"], "spec.minReadySeconds");
    let empty = members(spec, &["selector"]).next().is_none();
    if empty {
        errors.push(FieldError::required("spec.selector", ""));
    }
    errors.extend(check::nonnegative(spec, &["replicas"], "spec.replicas"));
    let template = at(spec, &["template"]);
    if !has(spec, &["template"]) {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    }
    let labels = at(template, &["metadata", "labels"]);
    let selected = members(spec, &["selector"]).all(|(key, value)| at(labels, &[key]) == value);
    if !empty && !selected {
        errors.push(template_not_picked(labels, "spec.template"));
    }
    let kind = "ReplicationController";
    errors.extend(running_template(template, "spec.template", kind));
    errors
}

fn controller_status(controller: &Value) -> Vec<FieldError> {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ];
    replica_counts(controller, &counts, &counts[1..4])
}

fn controller_cells(controller: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(controller);
    vec![
        name(controller),
        count(controller, &["spec", "replicas"]),
        count(controller, &["status", "replicas"]),
        count(controller, &["status", "readyReplicas"]),
        age(controller, now),
        names,
        images,
        labels(controller, &["spec", "selector"]).into(),
    ]
}

fn revision_cells(revision: &Value, now: Timestamp) -> Vec<Value> {
    let owners = list(revision, &["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|owner| at(owner, &["controller"]) == &json!(true));
    let shown = controller.map_or(NONE.to_owned(), |owner| {
        let group = text(owner, &["apiVersion"])
            .split_once('/')
            .map_or("", |(group, _)| group);
        let kind = text(owner, &["kind"]).to_lowercase();
        let dot = if group.is_empty() { "" } else { "." };
        format!("{kind}{dot}{group}/{}", text(owner, &["name"]))
    });
    vec![
        name(revision),
        shown.into(),
        count(revision, &["revision"]),
        age(revision, now),
    ]
}

//! Stateful sets: defaults, rules and printed columns. The Pods are made elsewhere.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::behavior::KindBehavior;
use super::super::claims;
use super::super::pods;
use super::super::pods::warnings::template_at;
use super::super::print::{age, containers, name, selector};
use super::super::require::known;
use super::super::value::{at, default_to, has, items_mut, list, number, set, text};
use super::super::{check, shown};
use super::template_not_picked;
use super::{collisions_decremented, default_template, picks, replica_counts, selector_given};

const FIXED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

/// How stateful sets behave.
pub(in super::super) const STATEFUL_SET: KindBehavior = KindBehavior {
    default,
    prepare_create: |sets| drop_max_unavailable(sets, &Value::Null),
    prepare_update: |new, old, _| drop_max_unavailable(new, old),
    validate: |set| spec(at(set, &["spec"]), true),
    validate_update: update,
    validates_updates: false,
    name: validation::dns_label,
    generation: &[&["spec"]],
    cells,
    warnings: |set| {
        let mut warnings = template_at(set, &["spec", "template"]);
        warnings.extend(history_warning(set));
        warnings
    },
    update_warnings: |new, old| {
        let mut warnings = super::template_warnings(new, old);
        warnings.extend(history_warning(new));
        warnings
    },
    ..KindBehavior::PLAIN
};

/// A field of a feature that is off is kept only where it already is.
fn drop_max_unavailable(sets: &mut Value, old: &Value) {
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    if !has(old, &path) {
        set(sets, &path, Value::Null);
    }
}

fn history_warning(set: &Value) -> Option<String> {
    let why =
        "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
    (number(set, &["spec", "revisionHistoryLimit"])? < 0).then(|| why.to_owned())
}

fn default(set: &mut Value) {
    default_template(set);
    for claim in items_mut(set, &["spec", "volumeClaimTemplates"]) {
        default_to(claim, "apiVersion", "v1");
        default_to(claim, "kind", "PersistentVolumeClaim");
        (claims::CLAIM.default)(claim);
        default_to(&mut claim["status"], "phase", "Pending");
    }
    let Some(spec) = set.get_mut("spec") else {
        return;
    };
    default_to(spec, "podManagementPolicy", "OrderedReady");
    let strategy = &mut spec["updateStrategy"];
    if text(strategy, &["type"]).is_empty() {
        default_to(strategy, "type", "RollingUpdate");
        default_to(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, &["type"]) == "RollingUpdate" && has(strategy, &["rollingUpdate"]) {
        default_to(&mut strategy["rollingUpdate"], "partition", 0);
    }
    default_to(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    for when in ["whenDeleted", "whenScaled"] {
        default_to(&mut spec["persistentVolumeClaimRetentionPolicy"], when, "Retain");
    }
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
}

fn spec(spec: &Value, new: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy = text(spec, &["podManagementPolicy"]);
    if !["OrderedReady", "Parallel"].contains(&policy) {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", policy, why));
    }
    errors.extend(strategy(at(spec, &["updateStrategy"])));
    let retention = at(spec, &["persistentVolumeClaimRetentionPolicy"]);
    for when in ["whenDeleted", "whenScaled"] {
        let field = "spec.persistentVolumeClaimRetentionPolicy";
        errors.extend(known(retention, when, field, &["Retain", "Delete"]));
    }
    if new {
        for (index, claim) in list(spec, &["volumeClaimTemplates"]).iter().enumerate() {
            let field = format!("spec.volumeClaimTemplates[{index}].spec");
            errors.extend(claims::spec(at(claim, &["spec"]), &field));
        }
    }
    for key in ["replicas", "minReadySeconds"] {
        errors.extend(check::nonnegative(spec, &[key], &format!("spec.{key}")));
    }
    errors.extend(check::nonnegative(spec, &["ordinals", "start"], "spec.ordinals.start"));
    let service = text(spec, &["serviceName"]);
    if new && !service.is_empty() {
        let wrong = validation::dns_label(service, false);
        errors.extend(check::invalid("spec.serviceName", service, wrong));
    }
    errors.extend(selector_and_template(spec));
    errors
}

fn selector_and_template(spec: &Value) -> Vec<FieldError> {
    let wanted = at(spec, &["selector"]);
    let mut errors = selector_given(wanted, "statefulset");
    if check::label_selector(wanted, "").is_empty() {
        let labels = at(spec, &["template", "metadata", "labels"]);
        let selects = wanted.is_null() || !selector(wanted).is_empty();
        if selects && !picks(wanted, labels) {
            errors.push(template_not_picked(labels, "spec.template"));
        }
        let template = with_claims(spec);
        errors.extend(pods::running_template(&template, "spec.template", "StatefulSet"));
        // The server looks at the labels of the template twice.
        errors.extend(check::labels(
            &template,
            &["metadata", "labels"],
            "spec.template.labels",
        ));
    } else {
        errors.push(shown::invalid("spec.selector", &shown::selector(wanted), ""));
    }
    errors
}

/// The template as its Pods will have it: with a volume for each claim.
fn with_claims(spec: &Value) -> Value {
    let mut template = at(spec, &["template"]).clone();
    let claims = list(spec, &["volumeClaimTemplates"]);
    let names: Vec<&str> = claims.iter().map(|claim| text(claim, &["metadata", "name"])).collect();
    if !names.is_empty() {
        let own = list(&template, &["spec", "volumes"]).iter();
        let own = own.filter(|volume| !names.contains(&text(volume, &["name"]))).cloned();
        let claimed = |name: &&str| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } });
        let volumes: Vec<Value> = names.iter().map(claimed).chain(own).collect();
        set(&mut template, &["spec", "volumes"], volumes.into());
    }
    for key in ["subdomain", "hostname"] {
        set(&mut template, &["spec", key], Value::Null);
    }
    template
}

fn strategy(strategy: &Value) -> Vec<FieldError> {
    let rolling = at(strategy, &["rollingUpdate"]);
    let field = "spec.updateStrategy.rollingUpdate";
    let shown = || match rolling {
        Value::Null => "null".to_owned(),
        _ => shown::object(&[
            ("Partition", number(rolling, &["partition"]).unwrap_or(0).to_string()),
            ("MaxUnavailable", at(rolling, &["maxUnavailable"]).to_string()),
        ]),
    };
    match text(strategy, &["type"]) {
        "OnDelete" if !rolling.is_null() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            vec![shown::invalid(field, &shown(), why)]
        }
        "OnDelete" => Vec::new(),
        "RollingUpdate" => rolling_update(rolling, field),
        other => {
            let kind = Value::from(other).to_string();
            let shown = shown::object(&[("Type", kind), ("RollingUpdate", shown())]);
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            vec![shown::invalid("spec.updateStrategy", &shown, why)]
        }
    }
}

fn rolling_update(rolling: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = check::nonnegative(rolling, &["partition"], &format!("{field}.partition"));
    let most = at(rolling, &["maxUnavailable"]);
    let field = format!("{field}.maxUnavailable");
    if !most.is_null() {
        errors.extend(check::int_or_percent(most, &field));
        if check::percent_value(most).or_else(|| most.as_i64()) == Some(0) {
            errors.push(shown::invalid(&field, &most.to_string(), "cannot be 0"));
        }
        errors.extend(check::at_most_100_percent(most, &field));
    }
    errors
}

fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Status {
        return status(new, old);
    }
    let mut errors = spec(at(new, &["spec"]), false);
    let rest = |set: &Value| {
        let mut spec = at(set, &["spec"]).clone();
        for key in CHANGEABLE {
            super::super::value::set(&mut spec, &[key], Value::Null);
        }
        spec
    };
    if rest(new) != rest(old) {
        errors.push(FieldError::forbidden("spec", FIXED));
    }
    errors
}

fn status(new: &Value, old: &Value) -> Vec<FieldError> {
    let parts = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let mut errors = replica_counts(new, &counts, &parts);
    for error in &mut errors {
        // The one sentence this kind words otherwise.
        if error.detail == "cannot be greater than readyReplicas" {
            "cannot be greater than status.readyReplicas".clone_into(&mut error.detail);
        }
    }
    errors.extend(collisions_decremented(new, old));
    errors
}

fn cells(set: &Value, now: Timestamp) -> Vec<Value> {
    let replicas = |path: &[&str]| number(set, path).unwrap_or(0);
    let ready = format!(
        "{}/{}",
        replicas(&["status", "readyReplicas"]),
        replicas(&["spec", "replicas"])
    );
    let [names, images] = containers(set);
    vec![name(set), ready.into(), age(set, now), names, images]
}

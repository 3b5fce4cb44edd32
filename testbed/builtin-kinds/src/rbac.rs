//! Roles, cluster roles and their bindings: their form. What they allow is decided elsewhere.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::Value;

use super::behavior::KindBehavior;
use super::check;
use super::print::{age, name, name_and_creation};
use super::shown;
use super::value::{at, default_to, has, items_mut, list, text};

const GROUP: &str = "rbac.authorization.k8s.io";

const ANY: KindBehavior = KindBehavior {
    name: |name, _| validation::path_segment(name, false),
    create_on_update: true,
    ..KindBehavior::PLAIN
};

/// How roles behave.
pub(super) const ROLE: KindBehavior = KindBehavior {
    validate: |role| rules(role, true),
    cells: name_and_creation,
    ..ANY
};

/// How cluster roles behave.
pub(super) const CLUSTER_ROLE: KindBehavior = KindBehavior {
    validate: validate_cluster_role,
    cells: name_and_creation,
    ..ANY
};

/// How role bindings behave.
pub(super) const ROLE_BINDING: KindBehavior = KindBehavior {
    default: default_binding,
    validate: |binding| validate_binding(binding, &["Role", "ClusterRole"], true),
    validate_update: |new, old, _| {
        let mut errors = validate_binding(new, &["Role", "ClusterRole"], true);
        errors.extend(role_ref_stays(new, old));
        errors
    },
    validates_updates: false,
    cells: binding_cells,
    ..ANY
};

/// How cluster role bindings behave.
pub(super) const CLUSTER_ROLE_BINDING: KindBehavior = KindBehavior {
    default: default_binding,
    validate: |binding| validate_binding(binding, &["ClusterRole"], false),
    validate_update: |new, old, _| {
        let mut errors = validate_binding(new, &["ClusterRole"], false);
        errors.extend(role_ref_stays(new, old));
        errors
    },
    validates_updates: false,
    cells: binding_cells,
    ..ANY
};

fn default_binding(binding: &mut Value) {
    if let Some(reference) = binding.get_mut("roleRef") {
        default_to(reference, "apiGroup", GROUP);
    }
    for subject in items_mut(binding, &["subjects"]) {
        if matches!(text(subject, &["kind"]), "User" | "Group") {
            default_to(subject, "apiGroup", GROUP);
        }
    }
}

fn rules(role: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in list(role, &["rules"]).iter().enumerate() {
        errors.extend(validate_rule(rule, namespaced, &format!("rules[{index}]")));
    }
    errors
}

fn validate_rule(rule: &Value, namespaced: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let empty = |key: &str| list(rule, &[key]).is_empty();
    let mut required = |key: &str, why: &str| {
        if empty(key) {
            errors.push(FieldError::required(format!("{field}.{key}"), why));
        }
    };
    required("verbs", "verbs must contain at least one value");
    if empty("nonResourceURLs") {
        let why = "resource rules must supply at least one api group";
        required("apiGroups", why);
        let why = "resource rules must supply at least one resource";
        required("resources", why);
        return errors;
    }
    let urls = |why: &str| {
        let urls = at(rule, &["nonResourceURLs"]).clone();
        FieldError::invalid(format!("{field}.nonResourceURLs"), urls, why)
    };
    if namespaced {
        let why = "namespaced rules cannot apply to non-resource URLs";
        errors.push(urls(why));
    }
    if !(empty("apiGroups") && empty("resources") && empty("resourceNames")) {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(urls(why));
    }
    errors
}

fn validate_cluster_role(role: &Value) -> Vec<FieldError> {
    let mut errors = rules(role, false);
    if !has(role, &["aggregationRule"]) {
        return errors;
    }
    let field = "aggregationRule.clusterRoleSelectors";
    let selectors = list(role, &["aggregationRule", "clusterRoleSelectors"]);
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(field, why));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let wrong = check::label_selector(selector, &field);
        if !wrong.is_empty() {
            errors.extend(wrong);
            errors.push(shown::invalid(field, "null", "invalid label selector."));
        }
    }
    errors
}

fn validate_binding(binding: &Value, kinds: &[&str], namespaced: bool) -> Vec<FieldError> {
    let reference = |key: &str| text(binding, &["roleRef", key]);
    let mut errors = check::one_of("roleRef.apiGroup", reference("apiGroup"), &[GROUP]);
    errors.extend(check::one_of("roleRef.kind", reference("kind"), kinds));
    match reference("name") {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => errors.extend(check::invalid(
            "roleRef.name",
            name,
            validation::path_segment(name, false),
        )),
    }
    for (index, subject) in list(binding, &["subjects"]).iter().enumerate() {
        errors.extend(validate_subject(subject, namespaced, &format!("subjects[{index}]")));
    }
    errors
}

fn validate_subject(subject: &Value, namespaced: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(subject, &["name"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    }
    let group = text(subject, &["apiGroup"]);
    let group_field = format!("{field}.apiGroup");
    match text(subject, &["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(check::invalid(
                    &format!("{field}.name"),
                    name,
                    validation::dns_subdomain(name, false),
                ));
            }
            errors.extend(check::one_of(&group_field, group, &[""]));
            if !namespaced && text(subject, &["namespace"]).is_empty() {
                errors.push(FieldError::required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" => errors.extend(check::one_of(&group_field, group, &[GROUP])),
        other => errors.extend(check::one_of(
            &format!("{field}.kind"),
            other,
            &["ServiceAccount", "User", "Group"],
        )),
    }
    errors
}

fn role_ref_stays(new: &Value, old: &Value) -> Vec<FieldError> {
    if at(new, &["roleRef"]) == at(old, &["roleRef"]) {
        return Vec::new();
    }
    let printed = |key: &str| at(new, &["roleRef", key]).to_string();
    let shown = shown::object(&[
        ("APIGroup", printed("apiGroup")),
        ("Kind", printed("kind")),
        ("Name", printed("name")),
    ]);
    vec![shown::invalid("roleRef", &shown, "cannot change roleRef")]
}

fn binding_cells(binding: &Value, now: Timestamp) -> Vec<Value> {
    let reference = format!(
        "{}/{}",
        text(binding, &["roleRef", "kind"]),
        text(binding, &["roleRef", "name"])
    );
    let subjects = |kind: &str| -> Value {
        list(binding, &["subjects"])
            .iter()
            .filter(|subject| text(subject, &["kind"]) == kind)
            .map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, &["namespace"]), text(subject, &["name"])),
                _ => text(subject, &["name"]).to_owned(),
            })
            .collect::<Vec<_>>()
            .join(", ")
            .into()
    };
    vec![
        name(binding),
        reference.into(),
        age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

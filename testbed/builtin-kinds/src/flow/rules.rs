//! What is wrong with a flow schema.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::value::{at, has, list, number, text};
use super::super::{check, require, shown};

const METHODS: [&str; 2] = ["ByNamespace", "ByUser"];
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A flow schema.
pub(super) fn schema(schema: &Value) -> Vec<FieldError> {
    let spec = at(schema, &["spec"]);
    let precedence = number(spec, &["matchingPrecedence"]).unwrap_or(0);
    let refused = |why: &str| FieldError::invalid("spec.matchingPrecedence", precedence, why);
    let mut errors = Vec::new();
    if precedence <= 0 {
        errors.push(refused("must be a positive value"));
    }
    if precedence > 10_000 {
        errors.push(refused("must not be greater than 10000"));
    }
    if precedence == 1 && text(schema, &["metadata", "name"]) != "exempt" {
        errors.push(refused("only the schema named 'exempt' may have matchingPrecedence 1"));
    }
    let method = at(spec, &["distinguisherMethod"]);
    if !method.is_null() && !METHODS.contains(&text(method, &["type"])) {
        let shown = shown::object(&[("Type", at(method, &["type"]).to_string())]);
        let field = "spec.distinguisherMethod.type";
        errors.push(shown::not_supported(field, &shown, &METHODS));
    }
    let level = text(spec, &["priorityLevelConfiguration", "name"]);
    let field = "spec.priorityLevelConfiguration.name";
    if level.is_empty() {
        errors.push(FieldError::required(field, "must reference a priority level"));
    } else {
        errors.extend(check::invalid(field, level, validation::dns_subdomain(level, false)));
    }
    errors.extend(require::each(spec, "rules", "spec", validate_rule));
    errors
}

fn validate_rule(rule: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if list(rule, &["subjects"]).is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(FieldError::required(format!("{field}.subjects"), why));
    }
    errors.extend(require::each(rule, "subjects", field, validate_subject));
    let none = |key: &str| list(rule, &[key]).is_empty();
    if none("resourceRules") && none("nonResourceRules") {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(field, why));
    }
    errors.extend(require::each(rule, "resourceRules", field, resource_rule));
    errors.extend(require::each(rule, "nonResourceRules", field, path_rule));
    errors
}

fn path_rule(rule: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = verbs(rule, field);
    let (key, others) = ("nonResourceURLs", "non-resource URLs");
    let why = "nonResourceURLs must contain at least one value";
    errors.extend(some(rule, key, field, why, others));
    errors
}

fn validate_subject(subject: &Value, field: &str) -> Vec<FieldError> {
    let kinds = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = text(subject, &["kind"]);
    let Some((_, own)) = kinds.iter().find(|(name, _)| *name == kind) else {
        return check::one_of(&format!("{field}.kind"), kind, &["Group", "ServiceAccount", "User"]);
    };
    let mut errors = Vec::new();
    let part = at(subject, &[own]);
    let part_field = format!("{field}.{own}");
    if part.is_null() {
        let why = format!("{own} is required when subject kind is '{kind}'");
        errors.push(FieldError::required(&part_field, why));
    } else {
        errors.extend(require::given(part, "name", &part_field, ""));
        if kind == "ServiceAccount" {
            let why = "must specify namespace for service account";
            errors.extend(require::given(part, "namespace", &part_field, why));
        }
    }
    for (name, other) in kinds.iter().filter(|(name, _)| *name != kind) {
        if has(subject, &[other]) {
            let why = format!("{other} is forbidden when subject kind is not '{name}'");
            errors.push(FieldError::forbidden(format!("{field}.{other}"), why));
        }
    }
    errors
}

fn resource_rule(rule: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = verbs(rule, field);
    let why = "resource rules must supply at least one api group";
    errors.extend(some(rule, "apiGroups", field, why, "api groups"));
    let why = "resource rules must supply at least one resource";
    errors.extend(some(rule, "resources", field, why, "resources"));
    if at(rule, &["clusterScope"]) != true || !list(rule, &["namespaces"]).is_empty() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.extend(some(rule, "namespaces", field, why, "namespaces"));
    }
    errors
}

fn verbs(rule: &Value, field: &str) -> Vec<FieldError> {
    let why = "verbs must contain at least one value";
    let wrong = some(rule, "verbs", field, why, "verbs");
    let given = list(rule, &["verbs"]);
    let unknown = given
        .iter()
        .any(|verb| verb != "*" && !VERBS.iter().any(|known| verb == known));
    if wrong.is_empty() && unknown {
        let shown = at(rule, &["verbs"]).to_string();
        return vec![shown::not_supported(format!("{field}.verbs"), &shown, &VERBS)];
    }
    wrong
}

/// A list that is not empty and holds either a star or others.
fn some(rule: &Value, key: &str, field: &str, missing: &str, others: &str) -> Vec<FieldError> {
    let (items, field) = (list(rule, &[key]), format!("{field}.{key}"));
    if items.is_empty() {
        return vec![FieldError::required(field, missing)];
    }
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let why = format!("if '*' is present, must not specify other {others}");
        return vec![shown::invalid(field, &at(rule, &[key]).to_string(), &why)];
    }
    Vec::new()
}

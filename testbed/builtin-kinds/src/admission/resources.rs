//! What policies and bindings may say about the requests they are for and about their parameters.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::value::{at, has, list, text};
use super::super::{check, require};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// `matchConstraints` and `matchResources`.
pub(super) fn matching(resources: &Value, field: &str) -> Vec<FieldError> {
    let policy = text(resources, &["matchPolicy"]);
    let mut errors = match has(resources, &["matchPolicy"]) {
        true => check::one_of(&format!("{field}.matchPolicy"), policy, &["Equivalent", "Exact"]),
        false => vec![FieldError::required(format!("{field}.matchPolicy"), "")],
    };
    for selector in ["namespaceSelector", "objectSelector"] {
        let at_selector = format!("{field}.{selector}");
        errors.extend(match at(resources, &[selector]) {
            Value::Null => vec![FieldError::required(at_selector, "")],
            selector => check::label_selector(selector, &at_selector),
        });
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        errors.extend(require::each(resources, rules, field, rule));
    }
    errors
}

/// Which requests a policy or a webhook is about.
pub(in super::super) fn rule(rule: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let named = list(rule, &["resourceNames"]);
    for (index, name) in named.iter().enumerate() {
        let at_name = format!("{field}.resourceNames[{index}]");
        let text = name.as_str().unwrap_or("");
        errors.extend(check::invalid(&at_name, text, validation::path_segment(text, false)));
        if named[..index].contains(name) {
            errors.push(FieldError::duplicate(at_name, text));
        }
    }
    errors.extend(words(rule, field, "operations", "operations"));
    errors.extend(require::each(rule, "operations", field, |one, field| {
        check::one_of(field, one.as_str().unwrap_or(""), &OPERATIONS)
    }));
    errors.extend(words(rule, field, "apiGroups", "API groups"));
    errors.extend(words(rule, field, "apiVersions", "API versions"));
    for (index, version) in list(rule, &["apiVersions"]).iter().enumerate() {
        if version == "" {
            let field = format!("{field}.apiVersions[{index}]");
            errors.push(FieldError::required(field, ""));
        }
    }
    errors.extend(plurals(list(rule, &["resources"]), &format!("{field}.resources")));
    let scopes = &["*", "Cluster", "Namespaced"];
    errors.extend(require::known(rule, "scope", field, scopes));
    errors
}

/// A list that is not empty, and has nothing beside a `*`.
fn words(rule: &Value, field: &str, member: &str, called: &str) -> Option<FieldError> {
    let field = format!("{field}.{member}");
    let words = list(rule, &[member]);
    if words.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    (words.len() > 1 && words.iter().any(|word| word == "*")).then(|| {
        let why = format!("if '*' is present, must not specify other {called}");
        FieldError::invalid(field, words.to_vec(), why)
    })
}

fn plurals(resources: &[Value], field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if resources.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    let (mut all_of, mut of_all, mut plain) = (Vec::new(), Vec::new(), false);
    for (index, resource) in resources.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let resource = resource.as_str().unwrap_or("");
        if resource.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let Some((plural, sub)) = resource.split_once('/') else {
            plain = resource != "*";
            continue;
        };
        if all_of.contains(&plural) {
            let why = format!("if '{plural}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid(field.as_str(), resource, why));
        }
        if of_all.contains(&sub) {
            let why = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(field.as_str(), resource, why));
        }
        all_of.extend((sub == "*").then_some(plural));
        of_all.extend((plural == "*").then_some(sub));
    }
    let said = |word: &str| resources.iter().any(|resource| resource == word);
    if resources.len() > 1 && said("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(field, resources.to_vec(), why));
    }
    if said("*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(field, resources.to_vec(), why));
    }
    errors
}

/// `paramKind` of a policy.
pub(super) fn param_kind(kind: &Value, field: &str) -> Vec<FieldError> {
    let at_version = format!("{field}.apiVersion");
    let mut errors = match text(kind, &["apiVersion"]) {
        "" => vec![FieldError::required(at_version, "")],
        version => api_version(version, &at_version),
    };
    let at_kind = format!("{field}.kind");
    match text(kind, &["kind"]) {
        "" => errors.push(FieldError::required(at_kind, "")),
        kind => {
            let wrong = validation::custom::dns_1035_label(&kind.to_lowercase());
            if !wrong.is_empty() {
                let why = "may have mixed case, but should otherwise match: ";
                let why = format!("{why}{}", wrong.join(","));
                errors.push(FieldError::invalid(at_kind, kind, why));
            }
        }
    }
    errors
}

fn api_version(stated: &str, field: &str) -> Vec<FieldError> {
    let (group, version) = match stated.matches('/').count() {
        _ if stated == "/" => ("", ""),
        0 => ("", stated),
        1 => stated.split_once('/').unwrap_or(("", stated)),
        _ => {
            let why = format!("unexpected GroupVersion string: {stated}");
            return vec![FieldError::invalid(field, stated, why)];
        }
    };
    let mut errors = Vec::new();
    let mut judge = |part: &str, wrong: Vec<String>| {
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(field, part, wrong.join(",")));
        }
    };
    if !group.is_empty() {
        judge(group, validation::dns_subdomain(group, false));
    }
    if version.is_empty() {
        judge(stated, vec!["version must be specified".to_owned()]);
    } else {
        judge(version, validation::custom::dns_1035_label(version));
    }
    errors
}

/// `paramRef` of a binding.
pub(super) fn param_ref(reference: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(reference, &["name"]);
    let selector = at(reference, &["selector"]);
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        let field = format!("{field}.name");
        errors.extend(check::invalid(&field, name, validation::path_segment(name, false)));
        if selector.is_object() {
            errors.push(FieldError::forbidden(field, exclusive));
        }
    }
    if selector.is_object() {
        let field = format!("{field}.selector");
        errors.extend(check::label_selector(selector, &field));
        if !name.is_empty() {
            errors.push(FieldError::forbidden(field, exclusive));
        }
    } else if name.is_empty() {
        let why = "one of name or selector must be specified";
        errors.push(FieldError::required(field, why));
    }
    let at_action = format!("{field}.parameterNotFoundAction");
    match text(reference, &["parameterNotFoundAction"]) {
        "" => errors.push(FieldError::required(at_action, "")),
        action => errors.extend(check::one_of(&at_action, action, &["Deny", "Allow"])),
    }
    errors
}

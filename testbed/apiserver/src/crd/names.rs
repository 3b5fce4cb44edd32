//! The names of a definition: group, plural, kind and the others.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation::custom::{dns_1035_label, dns_subdomain};
use serde_json::Value;

use super::{text, texts};

const APPROVAL: &str = "api-approved.kubernetes.io";

pub(super) fn validate_group(group: &str) -> Option<FieldError> {
    let problems = dns_subdomain(group, false);
    if group.is_empty() {
        Some(FieldError::required("spec.group", ""))
    } else if !problems.is_empty() {
        Some(FieldError::invalid("spec.group", group, problems.join(",")))
    } else if !group.contains('.') {
        Some(FieldError::invalid(
            "spec.group",
            group,
            "should be a domain with at least one dot",
        ))
    } else {
        None
    }
}

/// Names a definition must have, whatever they are.
pub(super) fn validate_required(names: &Value) -> Vec<FieldError> {
    let missing = ["plural", "singular", "kind", "listKind"]
        .into_iter()
        .filter(|key| text(names, key).is_empty());
    missing
        .map(|key| FieldError::required(format!("spec.names.{key}"), ""))
        .collect()
}

pub(super) fn validate(names: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["plural", "singular", "kind", "listKind"] {
        let name = text(names, key);
        let mixed = key.ends_with("ind");
        let problems = dns_1035_label(&if mixed { name.to_lowercase() } else { name.to_owned() });
        if !name.is_empty() && !problems.is_empty() {
            let head = if mixed {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            let detail = format!("{head}{}", problems.join(","));
            errors.push(FieldError::invalid(format!("{path}.{key}"), name, detail));
        }
    }
    errors.extend(validate_each(names, "shortNames", path));
    let kind = text(names, "kind");
    if !kind.is_empty() && kind == text(names, "listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), kind, detail));
    }
    errors.extend(validate_each(names, "categories", path));
    errors
}

fn validate_each(names: &Value, key: &str, path: &str) -> Vec<FieldError> {
    let each = texts(names, key).into_iter().enumerate();
    let check = |(index, name): (usize, String)| {
        let problems = dns_1035_label(&name);
        let at = format!("{path}.{key}[{index}]");
        (!problems.is_empty()).then(|| FieldError::invalid(at, name, problems.join(",")))
    };
    each.filter_map(check).collect()
}

/// Groups of the Kubernetes project need its approval, which is an annotation.
pub(super) fn validate_approval(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    let group = text(&crd["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected
        .iter()
        .any(|p| group == *p || group.ends_with(&format!(".{p}")))
    {
        return None;
    }
    let state = Approval::of(crd);
    if old.is_some_and(|old| Approval::of(old) == state) {
        return None;
    }
    let at = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let head = format!("protected groups must have approval annotation \"{APPROVAL}\"");
    match state {
        Approval::Given | Approval::Bypassed => None,
        Approval::Missing => Some(FieldError::required(at, format!("{head}, {see}"))),
        Approval::Invalid => {
            let value = crd["metadata"]["annotations"][APPROVAL].clone();
            let detail = format!("{head} with either a URL or a reason starting with \"unapproved\", {see}");
            Some(FieldError::invalid(at, value, detail))
        }
    }
}

#[derive(PartialEq)]
enum Approval {
    Missing,
    Bypassed,
    Given,
    Invalid,
}

impl Approval {
    fn of(crd: &Value) -> Self {
        let annotation = crd["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default();
        let host = annotation
            .split_once("://")
            .map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        match annotation {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Bypassed,
            _ if !host.is_empty() => Self::Given,
            _ => Self::Invalid,
        }
    }
}

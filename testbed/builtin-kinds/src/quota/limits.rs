//! Limit ranges: what they fill in of themselves, and what is wrong with them.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::{Value, json};

use super::super::check;
use super::super::pods::defaults::resource_list;
use super::super::pods::resource_name;
use super::super::quantity::Quantity;
use super::super::value::{at, default_to, items_mut, list, members, text};

const AMOUNTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

/// Containers that name no limits get those of the range.
pub(super) fn default(range: &mut Value) {
    for limit in items_mut(range, &["spec", "limits"]) {
        for key in AMOUNTS {
            resource_list(limit, &[key]);
        }
        if text(limit, &["type"]) != "Container" {
            continue;
        }
        for (to, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let source = at(limit, &[from]).clone();
            for (resource, amount) in members(&source, &[]) {
                default_to(limit, to, json!({}));
                default_to(&mut limit[to], resource, amount.clone());
            }
        }
    }
}

/// A limit range.
pub(super) fn validate(range: &Value) -> Vec<FieldError> {
    let limits = list(range, &["spec", "limits"]);
    let mut errors = Vec::new();
    for (index, limit) in limits.iter().enumerate() {
        let field = format!("spec.limits[{index}]");
        let kind = text(limit, &["type"]);
        errors.extend(validate_kind(kind, &format!("{field}.type")));
        if limits[..index].iter().any(|earlier| text(earlier, &["type"]) == kind) {
            errors.push(FieldError::duplicate(format!("{field}.type"), kind));
        }
        errors.extend(validate_names(limit, kind, &field));
        let resources: BTreeSet<&String> = AMOUNTS
            .iter()
            .filter_map(|key| at(limit, &[key]).as_object())
            .flat_map(serde_json::Map::keys)
            .collect();
        for resource in resources {
            errors.extend(bounds(limit, resource, &field));
        }
    }
    errors
}

fn validate_kind(kind: &str, field: &str) -> Vec<FieldError> {
    let wrong = check::invalid(field, kind, validation::label_key(kind));
    let known = ["Pod", "Container", "PersistentVolumeClaim"].contains(&kind);
    if wrong.is_empty() && !kind.contains('/') && !known {
        let why = "must be a standard limit type or fully qualified";
        return vec![FieldError::invalid(field, kind, why)];
    }
    wrong
}

fn validate_names(limit: &Value, kind: &str, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in AMOUNTS {
        let pod = kind == "Pod" && key.starts_with("default");
        if pod && members(limit, &[key]).next().is_some() {
            let why = "may not be specified when `type` is 'Pod'";
            errors.push(FieldError::forbidden(format!("{field}.{key}"), why));
        }
        if key == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let given = |key: &str| !at(limit, &[key, "storage"]).is_null();
            if !given("min") && !given("max") {
                let why = "either minimum or maximum storage value is required, but neither was provided";
                errors.push(FieldError::required(format!("{field}.limits"), why));
            }
        }
        if !pod && matches!(kind, "Pod" | "Container") {
            for (resource, _) in members(limit, &[key]) {
                errors.extend(resource_name(resource, &format!("{field}.{key}[{resource}]")));
            }
        }
    }
    errors
}

/// No bound lies beyond another.
fn bounds(limit: &Value, resource: &str, field: &str) -> Vec<FieldError> {
    let amount = |key: &str| Quantity::parse(at(limit, &[key, resource]).as_str()?).ok();
    let pod = text(limit, &["type"]) == "Pod";
    let unless_pod = |key: &str| amount(key).filter(|_| !pod);
    let (least, most) = (amount("min"), amount("max"));
    let (given, asked) = (unless_pod("default"), unless_pod("defaultRequest"));
    let [min, max] = [("min", &least), ("max", &most)];
    let (limit_named, default) = (("default limit", &given), ("default", &given));
    let request = ("default request", &asked);
    let rules = [
        ("min", &least, min, max),
        ("defaultRequest", &asked, min, request),
        ("defaultRequest", &asked, request, max),
        ("defaultRequest", &asked, request, limit_named),
        ("default", &least, min, default),
        ("default", &most, default, max),
    ];
    let mut errors = Vec::new();
    for (key, shown, (small_name, small), (great_name, great)) in rules {
        if let (Some(small), Some(great), Some(shown)) = (small, great, shown)
            && small > great
        {
            let why = format!("{small_name} value {small} is greater than {great_name} value {great}");
            let field = format!("{field}.{key}[{resource}]");
            errors.push(FieldError::invalid(field, shown.to_string(), why));
        }
    }
    let ratio = amount("maxLimitRequestRatio");
    let one = Quantity::parse("1").ok();
    if let Some(ratio) = ratio.filter(|ratio| Some(ratio) < one.as_ref()) {
        let field = format!("{field}.maxLimitRequestRatio[{resource}]");
        let why = format!("ratio {ratio} is less than 1");
        errors.push(FieldError::invalid(field, ratio.to_string(), why));
    }
    errors
}

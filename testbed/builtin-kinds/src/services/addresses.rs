//! Rules for the cluster addresses of a service and their families.

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use super::super::check;
use super::super::shown;
use super::super::value::{at, list, text};
use super::needs_cluster_ip;

/// A service without an address of its own.
pub(super) fn is_headless(service: &Value) -> bool {
    matches!(list(service, &["spec", "clusterIPs"]), [only] if only == "None")
}

/// The addresses and families, as far as they can be judged alone.
pub(super) fn cluster_ips(service: &Value) -> Vec<FieldError> {
    if !needs_cluster_ip(service) {
        return Vec::new();
    }
    let plural = list(service, &["spec", "clusterIPs"]);
    let mut errors = Vec::new();
    match (
        text(service, &["spec", "clusterIP"]),
        plural.first().and_then(Value::as_str),
    ) {
        ("", Some(_)) => {
            errors.push(wrong(service, "must be empty when `clusterIP` is not specified"));
        }
        ("", None) => {}
        (_, None) => errors.push(FieldError::required("spec.clusterIPs", "")),
        (single, Some(first)) if single != first => {
            errors.push(wrong(service, "first value must match `clusterIP`"));
        }
        _ => {}
    }
    errors.extend(families(service));
    let broken = malformed(service, plural);
    let usable = broken.is_empty();
    errors.extend(broken);
    if plural.len() > 2 {
        errors.push(wrong(service, "may only hold up to 2 values"));
    }
    if usable {
        errors.extend(match_families(service, plural));
    }
    errors
}

fn wrong(service: &Value, why: &str) -> FieldError {
    let raw = at(service, &["spec", "clusterIPs"]).to_string();
    shown::invalid("spec.clusterIPs", &raw, why)
}

fn malformed(service: &Value, ips: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, ip) in ips.iter().enumerate() {
        match ip.as_str().unwrap_or("") {
            "None" if index == 0 && ips.len() > 1 => {
                errors.push(wrong(service, "'None' must be the first and only value"));
            }
            "None" if index == 0 => {}
            ip => errors.extend(check::ip(ip, &format!("spec.clusterIPs[{index}]"))),
        }
    }
    errors
}

fn families(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let families = list(service, &["spec", "ipFamilies"]);
    for (index, family) in families.iter().enumerate() {
        let (name, field) = (family.as_str().unwrap_or(""), format!("spec.ipFamilies[{index}]"));
        errors.extend(check::one_of(&field, name, &["IPv4", "IPv6"]));
        if families[..index].contains(family) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
    if let Some(policy) = at(service, &["spec", "ipFamilyPolicy"]).as_str() {
        let allowed = &["PreferDualStack", "RequireDualStack", "SingleStack"];
        errors.extend(check::one_of("spec.ipFamilyPolicy", policy, allowed));
    }
    errors
}

fn match_families(service: &Value, ips: &[Value]) -> Vec<FieldError> {
    let is_v6 = |ip: &Value| ip.as_str().unwrap_or("").contains(':');
    let mut errors = Vec::new();
    if matches!(ips, [first, second, ..] if is_v6(first) == is_v6(second)) {
        errors.push(wrong(service, "may specify no more than one IP for each IP family"));
    }
    if is_headless(service) {
        return errors;
    }
    for (index, (ip, family)) in ips.iter().zip(list(service, &["spec", "ipFamilies"])).enumerate() {
        let family = family.as_str().unwrap_or("");
        if (family == "IPv4" && is_v6(ip)) || (family == "IPv6" && !is_v6(ip)) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{index}]"),
                ip.clone(),
                why,
            ));
        }
    }
    errors
}

/// Once given, a service's first address and family stay.
pub(super) fn stay(new: &Value, old: &Value) -> Vec<FieldError> {
    if !needs_cluster_ip(new) || !needs_cluster_ip(old) || (is_headless(new) && is_headless(old)) {
        return Vec::new();
    }
    let mut errors = unchanged(new, old, "clusterIPs", "primary clusterIP can not be unset");
    if is_headless(new) == is_headless(old) {
        errors.extend(unchanged(new, old, "ipFamilies", "primary ipFamily can not be unset"));
    }
    errors
}

fn unchanged(new: &Value, old: &Value, key: &str, unset: &str) -> Vec<FieldError> {
    let (before, after) = (list(old, &["spec", key]), list(new, &["spec", key]));
    let raw = at(new, &["spec", key]).to_string();
    let wrong = |index: usize, why: &str| shown::invalid(format!("spec.{key}[{index}]"), &raw, why);
    if before.len() == after.len() {
        let changed = (0..before.len()).filter(|index| before[*index] != after[*index]);
        return changed.map(|index| wrong(index, "may not change once set")).collect();
    }
    match (before.first(), after.first()) {
        (Some(_), None) => vec![wrong(0, unset)],
        (Some(before), Some(after)) if before != after => vec![wrong(0, "may not change once set")],
        _ => Vec::new(),
    }
}

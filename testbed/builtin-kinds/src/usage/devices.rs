//! What a ResourceClaim uses: itself, and devices of each class it may be given.
//!
//! Claims made for the extended resources of a pod are counted as any other.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::plugins::Peers;
use super::super::quantity::Quantity;
use super::super::value::{at, has, list, number, text};
use super::amounts::Amounts;
use super::pods::is_extended_request;

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/";
/// A claim for all devices there are is counted with the most it can be given.
const MOST: usize = 32;

/// Names and extended resources of the classes there are.
fn classes(peers: &Peers<'_>) -> Vec<(String, String)> {
    let classes = peers("resource.k8s.io", "deviceclasses");
    let each = classes.iter().map(|class| {
        let resource = text(class, &["spec", "extendedResourceName"]);
        (text(class, &["metadata", "name"]).to_owned(), resource.to_owned())
    });
    each.collect()
}

/// Whether a resource is counted of claims.
pub(super) fn counts(name: &str, peers: &Peers<'_>) -> bool {
    if name == COUNT || name.ends_with(OF_CLASS) {
        return true;
    }
    if !is_extended_request(name) {
        return false;
    }
    let class = name.strip_prefix(IMPLICIT);
    let resource = name.strip_prefix("requests.").unwrap_or(name);
    let mut classes = classes(peers).into_iter();
    classes.any(|(named, extended)| class == Some(&named) || resource == extended)
}

/// What one claim uses.
pub(super) fn usage(claim: &Value, peers: &Peers<'_>) -> Amounts {
    let mut devices: BTreeMap<&str, usize> = BTreeMap::new();
    for request in list(claim, &["spec", "devices", "requests"]) {
        for (class, count) in asked(request) {
            *devices.entry(class).or_default() += count;
        }
    }
    let mut used = Amounts::from([(COUNT.to_owned(), Quantity::count(1))]);
    if devices.is_empty() {
        return used;
    }
    let known = classes(peers);
    for (class, count) in devices {
        let count = Quantity::count(count);
        let extended = known.iter().find(|(name, _)| name == class);
        let extended = extended.filter(|(_, resource)| !resource.is_empty());
        used.insert(format!("{class}{OF_CLASS}"), count.clone());
        if let Some((_, resource)) = extended.filter(|_| !count.is_zero()) {
            used.insert(format!("requests.{resource}"), count.clone());
        }
        if !count.is_zero() {
            used.insert(format!("{IMPLICIT}{class}"), count);
        }
    }
    used
}

/// How many devices of each class a request may be given: the most of any of its alternatives.
fn asked(request: &Value) -> BTreeMap<&str, usize> {
    let alternatives = list(request, &["firstAvailable"]);
    let exactly = Some(at(request, &["exactly"])).filter(|_| has(request, &["exactly"]));
    let mut most = BTreeMap::new();
    for each in alternatives.iter().chain(exactly.filter(|_| alternatives.is_empty())) {
        let class = text(each, &["deviceClassName"]);
        let count = match text(each, &["allocationMode"]) {
            "ExactCount" => number(each, &["count"]).and_then(|it| usize::try_from(it).ok()),
            "All" => Some(MOST),
            _ => None,
        };
        let highest: &mut usize = most.entry(class).or_default();
        *highest = count.unwrap_or(0).max(*highest);
    }
    most
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::amounts::shown;
    use super::*;

    fn one_class(_: &str, plural: &str) -> Vec<Arc<Value>> {
        let class = json!({ "metadata": { "name": "gpu" },
            "spec": { "extendedResourceName": "example.com/gpu" } });
        let there = (plural == "deviceclasses").then(|| Arc::new(class));
        there.into_iter().collect()
    }

    #[test]
    fn devices_are_counted_by_class_and_by_the_most_they_can_be() {
        let of = |class: &str, count: i64| json!({ "deviceClassName": class, "allocationMode": "ExactCount", "count": count });
        let requests = json!([
            { "name": "a", "exactly": of("gpu", 2) },
            { "name": "b", "firstAvailable": [of("gpu", 1), of("gpu", 3), of("nic", 1)] },
            { "name": "c", "exactly": { "deviceClassName": "nic", "allocationMode": "All" } },
        ]);
        let claim = json!({ "spec": { "devices": { "requests": requests } } });
        let used = shown(&usage(&claim, &one_class));
        assert_eq!(
            used,
            "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=5,nic.deviceclass.resource.k8s.io/devices=33,requests.deviceclass.resource.kubernetes.io/gpu=5,requests.deviceclass.resource.kubernetes.io/nic=33,requests.example.com/gpu=5"
        );
    }

    #[test]
    fn an_extended_resource_is_counted_where_a_class_stands_for_it() {
        assert!(counts("requests.example.com/gpu", &one_class));
        assert!(counts("requests.deviceclass.resource.kubernetes.io/gpu", &one_class));
        assert!(!counts("requests.example.com/nic", &one_class));
        assert!(!counts("requests.deviceclass.resource.kubernetes.io/nic", &one_class));
        assert!(counts("nic.deviceclass.resource.k8s.io/devices", &one_class));
    }
}

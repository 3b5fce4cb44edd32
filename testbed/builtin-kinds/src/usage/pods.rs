//! What a pod uses: itself, and what its containers ask for and are limited to.

use std::collections::{BTreeMap, BTreeSet};

use aplomb_apimachinery::validation;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value::{at, list, number, text};
use super::amounts::{Amounts, add, raise, read};
use super::sum;

const COUNT: &str = "count/pods";
const PODS: &str = "pods";
const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// What pods are counted by, as it is, after `requests.` and after `limits.`.
const COUNTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const STATUSES: [&str; 2] = ["containerStatuses", "initContainerStatuses"];
/// Where a quota counts these, every container has to name them.
const REQUIRED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

/// Whether a resource is counted of pods.
pub(super) fn counts(name: &str) -> bool {
    let asked = name.strip_prefix(REQUESTS);
    let plain = asked.or_else(|| name.strip_prefix("limits."));
    [COUNT, PODS].contains(&name)
        || COUNTED.contains(&plain.unwrap_or(name))
        || asked.unwrap_or(name).starts_with(HUGE_PAGES)
        || is_extended_request(name)
}

/// Whether a quota means an extended resource, which can only be asked for.
pub(super) fn is_extended_request(name: &str) -> bool {
    let asked = name.strip_prefix(REQUESTS);
    asked.is_some_and(|asked| !is_native(name) || asked.starts_with(DEVICE_CLASS))
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    let named = || validation::label_key(&format!("{REQUESTS}{name}")).is_empty();
    name.starts_with(DEVICE_CLASS) || (!is_native(name) && !name.starts_with(REQUESTS) && named())
}

/// What one pod uses; a pod that has ended is only counted.
pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    let mut used = Amounts::new();
    if is_counted(pod, now) {
        used = compute(&total(pod, "requests"), &total(pod, "limits"));
    }
    used.insert(COUNT.to_owned(), Quantity::count(1));
    used
}

/// Whether a pod uses more than its place among the objects: it has not ended and, if it was told to
/// go, still has time to.
pub(super) fn is_counted(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(pod, &["status", "phase"]), "Failed" | "Succeeded") {
        return false;
    }
    let told: Option<Timestamp> = text(pod, &["metadata", "deletionTimestamp"]).parse().ok();
    let grace = number(pod, &["metadata", "deletionGracePeriodSeconds"]);
    let end = told
        .zip(grace)
        .and_then(|(told, grace)| told.checked_add(SignedDuration::from_secs(grace)).ok());
    end.is_none_or(|end| now <= end)
}

/// Why the containers of a pod cannot be counted: they do not say what the quota counts.
pub(super) fn missing(pod: &Value, counted: &Amounts) -> Option<String> {
    if says_itself(pod) {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for key in ["containers", "initContainers"] {
        for container in list(pod, &["spec", key]) {
            let amounts = |which| read(container, &["resources", which]);
            let said = compute(&amounts("requests"), &amounts("limits"));
            let required = REQUIRED.into_iter().filter(|it| counted.contains_key(*it));
            for name in required.filter(|it| !said.contains_key(*it)) {
                let containers = missing.entry(name).or_default();
                containers.insert(text(container, &["name"]));
            }
        }
    }
    let each = missing.iter().map(|(name, containers)| {
        let containers: Vec<&str> = containers.iter().copied().collect();
        format!("{name} for: {}", containers.join(","))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("must specify {}", each.join("; ")))
}

fn of_whole_pod(name: &str) -> bool {
    sum::is_compute(name) || name.starts_with(HUGE_PAGES)
}

fn says_itself(pod: &Value) -> bool {
    ["requests", "limits"].iter().any(|which| {
        let said = read(pod, &["spec", "resources", which]);
        said.keys().any(|name| of_whole_pod(name))
    })
}

/// Requests and limits by the names quotas know them by.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::from([(PODS.to_owned(), Quantity::count(1))]);
    for (name, amount) in requests {
        let plain = COUNTED.contains(&name.as_str()) || name.starts_with(HUGE_PAGES);
        if plain {
            used.insert(name.clone(), amount.clone());
        }
        if plain || is_extended(name) {
            used.insert(format!("{REQUESTS}{name}"), amount.clone());
        }
    }
    let counted = limits.iter().filter(|(name, _)| COUNTED.contains(&name.as_str()));
    used.extend(counted.map(|(name, amount)| (format!("limits.{name}"), amount.clone())));
    used
}

/// What a pod asks for, or is limited to, with what it costs to run it.
fn total(pod: &Value, which: &str) -> Amounts {
    let mut total = sum::of_containers(pod, |container| of_container(pod, container, which));
    sum::override_by_pod(&mut total, pod, which, of_whole_pod);
    let mut overhead = read(pod, &["spec", "overhead"]);
    if which == "limits" {
        let limited = |name: &String| total.get(name).is_some_and(|it| !it.is_zero());
        overhead.retain(|name, _| limited(name));
    }
    add(&mut total, &overhead);
    total
}

/// What a container is to have, or still has where a resize is under way. Containers that run before
/// the others cannot be resized.
fn of_container(pod: &Value, container: &Value, which: &str) -> Amounts {
    let wanted = read(container, &["resources", which]);
    let called = |other: &&Value| at(other, &["name"]) == at(container, &["name"]);
    let mut before = list(pod, &["spec", "initContainers"]).iter();
    let fixed = before
        .find(called)
        .is_some_and(|it| text(it, &["restartPolicy"]) != "Always");
    let mut statuses = STATUSES.iter().flat_map(|key| list(pod, &["status", key]));
    let status = statuses
        .find(called)
        .filter(|status| !fixed && at(status, &["resources"]).is_object());
    let Some(status) = status else {
        return wanted;
    };
    let mut has = Amounts::new();
    if !is_infeasible(pod) {
        has = wanted;
    }
    raise(&mut has, &read(status, &["resources", which]));
    if which == "requests" {
        raise(&mut has, &read(status, &["allocatedResources"]));
    }
    has
}

/// Whether the node said that it will never have what is wanted.
fn is_infeasible(pod: &Value) -> bool {
    let mut conditions = list(pod, &["status", "conditions"]).iter();
    let pending = conditions.find(|it| text(it, &["type"]) == "PodResizePending");
    pending.is_some_and(|it| text(it, &["reason"]) == "Infeasible")
}

/// Whether containers have other resources than before.
pub(super) fn is_resized(old: &Value, new: &Value) -> bool {
    STATUSES.iter().any(|key| {
        let now = list(new, &["status", key]);
        list(old, &["status", key]).iter().any(|before| {
            let mut same = now.iter();
            let after = same.find(|it| at(it, &["name"]) == at(before, &["name"]));
            after.is_some_and(|it| at(it, &["resources"]) != at(before, &["resources"]))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::amounts::shown;
    use super::*;

    fn pod(resources: &Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "a", "resources": resources }] } })
    }

    fn used(pod: &Value) -> String {
        shown(&usage(pod, Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn requests_have_two_names_and_limits_one() {
        let resources = json!({
            "requests": { "cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "2" },
            "limits": { "cpu": "2", "hugepages-2Mi": "4Mi", "example.com/gpu": "2" },
        });
        assert_eq!(
            used(&pod(&resources)),
            "count/pods=1,cpu=1,hugepages-2Mi=4Mi,limits.cpu=2,pods=1,requests.cpu=1,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi"
        );
    }

    #[test]
    fn a_pod_that_has_ended_is_only_an_object() {
        let mut pod = pod(&json!({ "requests": { "cpu": "1" } }));
        pod["status"] = json!({ "phase": "Succeeded" });
        assert_eq!(used(&pod), "count/pods=1");
    }

    #[test]
    fn a_pod_that_should_be_gone_is_only_an_object() {
        let mut pod = pod(&json!({}));
        pod["metadata"] = json!({ "deletionTimestamp": "1970-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 30 });
        let at = |seconds| Timestamp::from_second(seconds).expect("a moment");
        assert!(is_counted(&pod, at(30)));
        assert!(!is_counted(&pod, at(31)));
    }

    #[test]
    fn overhead_is_asked_for_and_raises_only_limits_there_are() {
        let mut pod = pod(&json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "2" } }));
        pod["spec"]["overhead"] = json!({ "cpu": "100m", "memory": "64Mi" });
        assert_eq!(
            used(&pod),
            "count/pods=1,cpu=1100m,limits.cpu=2100m,memory=64Mi,pods=1,requests.cpu=1100m,requests.memory=64Mi"
        );
    }

    #[test]
    fn a_pod_speaks_for_its_containers() {
        let mut pod = pod(&json!({ "requests": { "cpu": "1" } }));
        pod["spec"]["resources"] = json!({ "requests": { "cpu": "3" } });
        assert_eq!(used(&pod), "count/pods=1,cpu=3,pods=1,requests.cpu=3");
        let counted = read(&json!({ "limits.cpu": "1" }), &[]);
        assert_eq!(missing(&pod, &counted), None);
    }

    #[test]
    fn what_a_container_still_has_counts_until_it_is_given_back() {
        let mut pod = pod(&json!({ "requests": { "cpu": "1" } }));
        let status = json!({ "name": "a", "resources": { "requests": { "cpu": "2" } },
            "allocatedResources": { "cpu": "3" } });
        pod["status"] = json!({ "containerStatuses": [status] });
        assert_eq!(used(&pod), "count/pods=1,cpu=3,pods=1,requests.cpu=3");
    }

    #[test]
    fn containers_have_to_say_what_is_counted() {
        let mut pod = pod(&json!({ "requests": { "cpu": "1" } }));
        pod["spec"]["initContainers"] = json!([{ "name": "z" }, { "name": "b" }]);
        let counted = json!({ "pods": "1", "limits.cpu": "1", "requests.cpu": "1", "ephemeral-storage": "1" });
        assert_eq!(
            missing(&pod, &read(&counted, &[])).as_deref(),
            Some("must specify limits.cpu for: a,b,z; requests.cpu for: b,z")
        );
    }

    #[test]
    fn names_of_quotas_are_told_apart() {
        for name in [
            "count/pods",
            "limits.memory",
            "hugepages-1Gi",
            "requests.hugepages-1Gi",
            "requests.example.com/gpu",
            "requests.deviceclass.resource.kubernetes.io/gpu",
        ] {
            assert!(counts(name), "{name}");
        }
        for name in [
            "limits.hugepages-1Gi",
            "example.com/gpu",
            "requests.storage",
            "requests.kubernetes.io/x",
            "services",
        ] {
            assert!(!counts(name), "{name}");
        }
    }
}

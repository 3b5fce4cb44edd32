//! What pods are counted with, and when they are not.

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
    let counted =
        json!({ "pods": "1", "limits.cpu": "1", "requests.cpu": "1", "ephemeral-storage": "1" });
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

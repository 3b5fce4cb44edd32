//! What limit ranges fill in and refuse, in the server's words.

use serde_json::{Value, json};

use super::*;

fn range(limits: &Value) -> Vec<Arc<Value>> {
    vec![Arc::new(json!({ "spec": { "limits": limits } }))]
}

fn container(name: &str, requests: &Value, limits: &Value) -> Value {
    json!({ "name": name, "resources": { "requests": requests, "limits": limits } })
}

fn refused(pod_spec: &Value, limits: &Value) -> Option<String> {
    pod(&json!({ "spec": pod_spec }), &range(limits)).err()
}

#[test]
fn a_container_gets_what_it_does_not_name() {
    let limit = json!([{ "type": "Container", "default": { "cpu": "1", "memory": "1Gi" },
        "defaultRequest": { "cpu": "1" } }]);
    let mut pod = json!({ "spec": { "containers": [{ "name": "a" }],
        "initContainers": [{ "name": "b", "resources": { "limits": { "cpu": "2" } } }] } });
    fill(&mut pod, &range(&limit));
    assert_eq!(
        pod["metadata"]["annotations"][ANNOTATION],
        "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; cpu request for init container b; memory limit for init container b"
    );
    assert_eq!(pod["spec"]["initContainers"][0]["resources"]["limits"]["cpu"], "2");
}

#[test]
fn the_first_of_several_ranges_fills_in_and_the_last_that_did_is_noted() {
    let of = |cpu: &str, more: &str| {
        let default = json!({ "cpu": cpu, more: "1Gi" });
        range(&json!([{ "type": "Container", "default": default }]))
    };
    let ranges = [of("1", "memory"), of("2", "ephemeral-storage")].concat();
    let mut pod = json!({ "spec": { "containers": [{ "name": "a" }] } });
    fill(&mut pod, &ranges);
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(
        *limits,
        json!({ "cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi" })
    );
    assert_eq!(
        pod["metadata"]["annotations"][ANNOTATION],
        "LimitRanger plugin set: ephemeral-storage limit for container a"
    );
}

#[test]
fn findings_are_told_once_and_in_order() {
    let limits = json!([{ "type": "Container", "min": { "cpu": "100m", "memory": "64Mi" },
        "max": { "cpu": "1" } }]);
    let spec = json!({ "containers": [
        container("a", &json!({ "cpu": "50m", "memory": "64Mi" }), &json!({ "cpu": "2" })),
        container("b", &json!({ "cpu": "50m" }), &json!({ "cpu": "2" })),
    ] });
    assert_eq!(
        refused(&spec, &limits).as_deref(),
        Some(
            "[minimum cpu usage per Container is 100m, but request is 50m, maximum cpu usage per Container is 1, but limit is 2, minimum memory usage per Container is 64Mi.  No request is specified]"
        )
    );
}

#[test]
fn a_pod_is_the_sum_of_its_containers() {
    let limits = json!([{ "type": "Pod", "max": { "cpu": "1" }, "min": { "memory": "1Gi" } }]);
    let half = json!({ "cpu": "600m", "memory": "512Mi" });
    let spec = json!({ "containers": [container("a", &half, &half), container("b", &half, &half)] });
    assert_eq!(
        refused(&spec, &limits).as_deref(),
        Some("maximum cpu usage per Pod is 1, but limit is 1200m")
    );
    let one = json!({ "containers": [container("a", &half, &half)] });
    assert_eq!(
        refused(&one, &limits).as_deref(),
        Some("minimum memory usage per Pod is 1Gi, but request is 512Mi")
    );
    let own = json!({ "containers": [container("a", &half, &half)],
        "resources": { "requests": { "memory": "1Gi" }, "limits": { "memory": "1Gi" } } });
    assert_eq!(refused(&own, &limits), None);
}

#[test]
fn a_limit_is_only_so_many_times_the_request() {
    let limits = json!([{ "type": "Container", "maxLimitRequestRatio": { "cpu": "2" } }]);
    let asks = |requests: Value, limit: Value| {
        let spec = json!({ "containers": [container("a", &requests, &limit)] });
        refused(&spec, &limits)
    };
    let head = "cpu max limit to request ratio per Container is 2, but";
    assert_eq!(
        asks(json!({ "cpu": "300m" }), json!({ "cpu": "1" })),
        Some(format!("{head} provided ratio is 3.333333"))
    );
    assert_eq!(asks(json!({ "cpu": "500m" }), json!({ "cpu": "1" })), None);
    assert_eq!(
        asks(json!({}), json!({ "cpu": "1" })),
        Some(format!("{head} no request is specified or request is 0"))
    );
    assert_eq!(
        asks(json!({ "cpu": "1" }), json!({})),
        Some(format!("{head} no limit is specified or limit is 0"))
    );
}

#[test]
fn a_claim_asks_for_neither_more_nor_less() {
    let limits = range(&json!([{ "type": "PersistentVolumeClaim", "min": { "storage": "2Gi" },
        "max": { "storage": "5Gi" } }]));
    let asks = |storage: &str| {
        let resources = json!({ "requests": { "storage": storage } });
        claim(&json!({ "spec": { "resources": resources } }), &limits).err()
    };
    let usage = "storage usage per PersistentVolumeClaim";
    assert_eq!(asks("1Gi"), Some(format!("minimum {usage} is 2Gi, but request is 1Gi")));
    assert_eq!(asks("6Gi"), Some(format!("maximum {usage} is 5Gi, but request is 6Gi")));
    assert_eq!(asks("3Gi"), None);
}

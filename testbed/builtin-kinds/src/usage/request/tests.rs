//! Requests that fit, that do not, and that cannot be told.

use aplomb_apimachinery::status::GroupResource;
use jiff::Timestamp;
use serde_json::json;

use super::*;

fn quota(hard: &Value, used: &Value) -> Arc<Value> {
    Arc::new(json!({ "metadata": { "name": "q" }, "spec": { "hard": hard },
        "status": { "hard": hard, "used": used } }))
}

fn asks(plural: &str, asked: &QuotaRequest<'_>, quota: &Arc<Value>) -> Result<Vec<Value>, String> {
    let evaluator = Evaluator::of(&GroupResource::new("", plural)).expect("it is counted");
    if !evaluator.handles(asked) {
        return Ok(Vec::new());
    }
    let nothing = |_: &str, _: &str| Vec::new();
    let around = QuotaSurroundings {
        peers: &nothing,
        now: Timestamp::UNIX_EPOCH,
    };
    let charges = charged(&evaluator, asked, &[Arc::clone(quota)], &around)?;
    Ok(charges.into_iter().map(|charge| charge.used).collect())
}

fn new(object: &Value) -> QuotaRequest<'_> {
    QuotaRequest {
        subresource: "",
        object,
        old: None,
    }
}

fn service(kind: &str) -> Value {
    json!({ "spec": { "type": kind, "ports": [{ "port": 80 }] } })
}

#[test]
fn what_fits_is_charged() {
    let quota = quota(
        &json!({ "configmaps": "2", "secrets": "1" }),
        &json!({ "configmaps": "1", "secrets": "0" }),
    );
    let charged = asks("configmaps", &new(&json!({})), &quota);
    assert_eq!(charged, Ok(vec![json!({ "configmaps": "2", "secrets": "0" })]));
}

#[test]
fn what_does_not_fit_is_told_with_all_that_is_exceeded() {
    let pod = json!({ "spec": { "containers": [{ "name": "a",
        "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } }] } });
    let quota = quota(
        &json!({ "pods": "5", "cpu": "1", "requests.memory": "1Gi" }),
        &json!({ "pods": "1", "cpu": "750m", "requests.memory": "512Mi" }),
    );
    let why = "exceeded quota: q, requested: cpu=500m,requests.memory=1Gi, used: cpu=750m,requests.memory=512Mi, limited: cpu=1,requests.memory=1Gi";
    assert_eq!(asks("pods", &new(&pod), &quota), Err(why.to_owned()));
}

#[test]
fn containers_that_say_nothing_are_refused_where_it_is_counted() {
    let pod = json!({ "spec": { "containers": [{ "name": "a" }] } });
    let quota = quota(&json!({ "limits.cpu": "1" }), &json!({ "limits.cpu": "0" }));
    let why = "failed quota: q: must specify limits.cpu for: a";
    assert_eq!(asks("pods", &new(&pod), &quota), Err(why.to_owned()));
}

#[test]
fn a_quota_without_numbers_refuses() {
    let quota = quota(
        &json!({ "services": "1", "services.nodeports": "1", "pods": "1" }),
        &json!({ "services": "0" }),
    );
    let why = "status unknown for quota: q, resources: services,services.nodeports";
    assert_eq!(
        asks("services", &new(&service("ClusterIP")), &quota),
        Err(why.to_owned())
    );
}

#[test]
fn a_quota_that_nobody_has_looked_at_limits_nothing() {
    let quota = Arc::new(json!({ "metadata": { "name": "q" }, "spec": { "hard": { "secrets": "0" } } }));
    assert_eq!(asks("secrets", &new(&json!({})), &quota), Ok(Vec::new()));
}

#[test]
fn a_change_is_charged_for_what_it_adds() {
    let (old, balanced) = (service("ClusterIP"), service("LoadBalancer"));
    let hard = json!({ "services": "1", "services.loadbalancers": "1" });
    let full = json!({ "services": "1", "services.loadbalancers": "0" });
    let becomes = QuotaRequest {
        subresource: "",
        object: &balanced,
        old: Some(&old),
    };
    assert_eq!(
        asks("services", &becomes, &quota(&hard, &full)),
        Ok(vec![json!({ "services": "1", "services.loadbalancers": "1" })])
    );
    let was = QuotaRequest {
        subresource: "",
        object: &old,
        old: Some(&balanced),
    };
    assert_eq!(asks("services", &was, &quota(&hard, &full)), Ok(Vec::new()));
}

#[test]
fn a_pod_that_comes_into_scope_is_charged_whole() {
    let old = json!({ "spec": { "containers": [] } });
    let limited = json!({ "spec": { "containers": [], "activeDeadlineSeconds": 5 } });
    let mut quota = Value::clone(&quota(&json!({ "pods": "1" }), &json!({ "pods": "1" })));
    quota["spec"]["scopes"] = json!(["Terminating"]);
    let change = QuotaRequest {
        subresource: "",
        object: &limited,
        old: Some(&old),
    };
    let why = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!(asks("pods", &change, &Arc::new(quota)), Err(why.to_owned()));
}

#[test]
fn a_status_tells_and_does_not_ask() {
    let claim = |allocated: &str| {
        json!({ "spec": { "resources": { "requests": { "storage": "1Gi" } } },
            "status": { "allocatedResources": { "storage": allocated } } })
    };
    let (old, grown) = (claim("1Gi"), claim("3Gi"));
    let quota = quota(
        &json!({ "requests.storage": "2Gi" }),
        &json!({ "requests.storage": "1Gi" }),
    );
    let told = QuotaRequest {
        subresource: "status",
        object: &grown,
        old: Some(&old),
    };
    assert_eq!(
        asks("persistentvolumeclaims", &told, &quota),
        Ok(vec![json!({ "requests.storage": "3Gi" })])
    );
}

#[test]
fn what_cannot_change_a_count_is_not_asked_about() {
    let map = json!({});
    let change = QuotaRequest {
        subresource: "",
        object: &map,
        old: Some(&map),
    };
    let quota = quota(&json!({ "configmaps": "0" }), &json!({}));
    assert_eq!(asks("configmaps", &change, &quota), Ok(Vec::new()));
    assert_eq!(Evaluator::of(&GroupResource::new("", "events")), None);
}

#[test]
fn everything_has_a_name_to_be_counted_by() {
    let names = |group: &str, plural: &str| Evaluator::of(&GroupResource::new(group, plural));
    let objects = |names: &[&str]| {
        let names = names.iter().map(|it| (*it).to_owned()).collect();
        Some(Evaluator::Objects(names))
    };
    assert_eq!(names("", "secrets"), objects(&["count/secrets", "secrets"]));
    assert_eq!(names("example.com", "widgets"), objects(&["count/widgets.example.com"]));
}

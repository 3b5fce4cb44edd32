//! What a controller manager makes: the furniture of a namespace, replica sets and pods.
//!
//! Names of pods are random, so what is compared is noted by hand; names of replica sets are a hash
//! of their template and have to be equal.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::{CaseRun, MERGE};

pub(super) const CASES: &[Case] = &[
    Case::new("workloads/a-namespace-is-furnished", |t| Box::pin(furnished(t))).with_controllers(),
    Case::new("workloads/a-deployment-becomes-pods", |t| Box::pin(becomes_pods(t))).with_controllers(),
    Case::new("workloads/a-rollout-goes-on-as-pods-get-ready", |t| {
        Box::pin(rollout(t))
    })
    .with_controllers(),
    Case::new("workloads/recreating-waits-for-old-pods", |t| Box::pin(recreates(t))).with_controllers(),
    Case::new("workloads/a-paused-deployment-scales-in-proportion", |t| {
        Box::pin(paused(t))
    })
    .with_controllers(),
    Case::new("workloads/pods-are-adopted-and-let-go", |t| Box::pin(adopted(t))).with_controllers(),
    Case::new("workloads/a-deployment-takes-everything-with-it", |t| {
        Box::pin(cascade(t))
    })
    .with_controllers(),
    Case::new("workloads/jobs-and-controllers-leave-pods-behind", |t| {
        Box::pin(left_behind(t))
    }),
];

/// Waits until an object is as wanted. What is there is not recorded: how often it is looked at
/// depends on the machine.
async fn until(t: &CaseRun, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    let mut last = Value::Null;
    for _ in 0..600 {
        let answer = t.quiet("GET", path, &[], "").await?;
        if answer.code == 200 && wanted(&answer.body) {
            return Ok(answer.body);
        }
        last = answer.body;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{path} stays {last}")
}

async fn gone(t: &CaseRun, path: &str) -> Result<()> {
    for _ in 0..600 {
        if t.quiet("GET", path, &[], "").await?.code == 404 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{path} is still there")
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

fn count(object: &Value, member: &str) -> i64 {
    object["status"][member].as_i64().unwrap_or(0)
}

fn settled(object: &Value) -> bool {
    object["metadata"]["generation"] == object["status"]["observedGeneration"]
}

async fn furnished(t: &CaseRun) -> Result<()> {
    let account = t.core("serviceaccounts/default");
    until(t, &account, |_| true).await?;
    t.delete(&account).await?.code(200)?;
    until(t, &account, |_| true).await?;
    let map = t.core("configmaps/kube-root-ca.crt");
    let before = until(t, &map, |_| true).await?;
    t.note("annotations", before["metadata"]["annotations"].clone()).await;
    let edit = json!({ "data": { "ca.crt": "mine", "more": "mine" } }).to_string();
    t.quiet("PATCH", &map, &[("content-type", MERGE)], edit).await?;
    until(t, &map, |it| it["data"] == before["data"]).await?;
    t.quiet("DELETE", &map, &[], "").await?.code(200)?;
    until(t, &map, |it| it["data"] == before["data"]).await?;
    Ok(())
}

fn deployment(name: &str, replicas: u32, spec: &Value) -> Value {
    let template = json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{
            "name": "c", "image": "registry.example.com/c:1",
            "resources": { "requests": { "cpu": "0.1", "memory": "1.5Gi" } },
            "readinessProbe": { "httpGet": { "path": "/", "port": 80 } },
        }] },
    });
    let mut body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "annotations": { "example.com/copied": "yes" } },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": template,
        },
    });
    for (member, value) in spec.as_object().into_iter().flatten() {
        body["spec"][member] = value.clone();
    }
    body
}

/// Creates a deployment and waits for its pods.
async fn deployed(t: &CaseRun, name: &str, replicas: u32, spec: &Value) -> Result<String> {
    let deployments = t.api("apps/v1", "deployments");
    let body = deployment(name, replicas, spec).to_string();
    let json = ("content-type", "application/json");
    t.quiet("POST", &deployments, &[json], body).await?.code(201)?;
    let path = format!("{deployments}/{name}");
    until(t, &path, |it| {
        settled(it) && count(it, "updatedReplicas") == i64::from(replicas)
    })
    .await?;
    Ok(path)
}

async fn patch(t: &CaseRun, path: &str, body: &Value) -> Result<()> {
    let merge = [("content-type", MERGE)];
    t.quiet("PATCH", path, &merge, body.to_string()).await?.code(200)?;
    Ok(())
}

/// Says of every pod that it is ready, as a kubelet would, until the deployment is done.
async fn get_ready(t: &CaseRun, path: &str, name: &str) -> Result<Value> {
    let pods = t.core(&format!("pods?labelSelector=app%3D{name}"));
    for _ in 0..200 {
        let seen = t.quiet("GET", path, &[], "").await?.body;
        let wanted = seen["spec"]["replicas"].as_i64().unwrap_or(0);
        let done = ["replicas", "updatedReplicas", "availableReplicas"];
        if settled(&seen) && done.iter().all(|it| count(&seen, it) == wanted) {
            return Ok(seen);
        }
        for pod in items(&t.quiet("GET", &pods, &[], "").await?.body) {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let status = t.core(&format!("pods/{name}/status"));
            let ready = json!({ "status": { "phase": "Running", "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }] } });
            let merge = [("content-type", MERGE)];
            t.quiet("PATCH", &status, &merge, ready.to_string()).await?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{path} is not rolled out")
}

/// Conditions without their times.
fn conditions(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let said = conditions.into_iter().flatten();
    said.map(|it| json!([it["type"], it["status"], it["reason"], it["message"]]))
        .collect()
}

/// Replica sets by name: what they ask for, their annotations and their labels.
async fn note_sets(t: &CaseRun, name: &str) -> Result<()> {
    let path = t.api("apps/v1", &format!("replicasets?labelSelector=app%3D{name}"));
    let sets = until(t, &path, |list| items(list).iter().all(settled)).await?;
    for set in items(&sets) {
        let seen = json!({
            "name": set["metadata"]["name"], "replicas": set["spec"]["replicas"],
            "annotations": set["metadata"]["annotations"], "labels": set["metadata"]["labels"],
            "selector": set["spec"]["selector"], "template": set["spec"]["template"],
            "owner": set["metadata"]["ownerReferences"][0]["kind"],
        });
        t.note("replica set", seen).await;
    }
    Ok(())
}

async fn becomes_pods(t: &CaseRun) -> Result<()> {
    let path = deployed(t, "web", 2, &json!({})).await?;
    let seen = until(t, &path, |it| count(it, "unavailableReplicas") == 2).await?;
    t.note("annotations", seen["metadata"]["annotations"].clone()).await;
    t.note("conditions", conditions(&seen)).await;
    let mut status = seen["status"].clone();
    status["conditions"] = Value::Null;
    t.note("status", status).await;
    note_sets(t, "web").await?;
    let pods = until(t, &t.core("pods?labelSelector=app%3Dweb"), |_| true).await?;
    for pod in items(&pods) {
        let owner = &pod["metadata"]["ownerReferences"][0];
        let seen = json!({
            "prefix": pod["metadata"]["generateName"], "labels": pod["metadata"]["labels"],
            "owner": [owner["kind"], owner["name"], owner["controller"], owner["blockOwnerDeletion"]],
            "phase": pod["status"]["phase"],
        });
        t.note("pod", seen).await;
    }
    let about = "events?fieldSelector=reason%3DScalingReplicaSet";
    let events = until(t, &t.core(about), |list| !items(list).is_empty()).await?;
    for event in items(&events) {
        let seen = json!([
            event["type"],
            event["message"],
            event["source"],
            event["count"],
            event["reportingComponent"],
            event["involvedObject"]["kind"]
        ]);
        t.note("event", seen).await;
    }
    Ok(())
}

async fn rollout(t: &CaseRun) -> Result<()> {
    let strategy = json!({ "type": "RollingUpdate",
        "rollingUpdate": { "maxSurge": 1, "maxUnavailable": "25%" } });
    let spec = json!({ "strategy": strategy, "revisionHistoryLimit": 1 });
    let path = deployed(t, "web", 4, &spec).await?;
    t.note("first", conditions(&get_ready(t, &path, "web").await?)).await;
    for version in ["2", "3", "1"] {
        let image = format!("registry.example.com/c:{version}");
        let container = json!([{ "name": "c", "image": image }]);
        let template = json!({ "spec": { "template": { "spec": { "containers": container } } } });
        patch(t, &path, &template).await?;
        // One more than asked for at most, one fewer available at least.
        let under_way = |it: &Value| {
            settled(it)
                && (count(it, "updatedReplicas"), count(it, "replicas")) == (2, 5)
                && count(it, "availableReplicas") == 3
        };
        until(t, &path, under_way).await?;
        t.note("done", conditions(&get_ready(t, &path, "web").await?)).await;
    }
    let sets = t.api("apps/v1", "replicasets");
    until(t, &sets, |list| items(list).len() == 2).await?;
    note_sets(t, "web").await
}

async fn recreates(t: &CaseRun) -> Result<()> {
    let spec = json!({ "strategy": { "type": "Recreate" } });
    let path = deployed(t, "web", 2, &spec).await?;
    get_ready(t, &path, "web").await?;
    let label = json!({ "spec": { "template": { "metadata": { "labels": { "v": "2" } } } } });
    patch(t, &path, &label).await?;
    let done = get_ready(t, &path, "web").await?;
    t.note("done", conditions(&done)).await;
    note_sets(t, "web").await
}

async fn paused(t: &CaseRun) -> Result<()> {
    let strategy = json!({ "type": "RollingUpdate",
        "rollingUpdate": { "maxSurge": 2, "maxUnavailable": 0 } });
    let path = deployed(t, "web", 6, &json!({ "strategy": strategy })).await?;
    get_ready(t, &path, "web").await?;
    let label = json!({ "spec": { "template": { "metadata": { "labels": { "v": "2" } } } } });
    patch(t, &path, &label).await?;
    until(t, &path, |it| settled(it) && count(it, "updatedReplicas") == 2).await?;
    patch(t, &path, &json!({ "spec": { "paused": true } })).await?;
    let seen = until(t, &path, settled).await?;
    t.note("paused", conditions(&seen)).await;
    patch(t, &path, &json!({ "spec": { "replicas": 12 } })).await?;
    until(t, &path, |it| settled(it) && count(it, "replicas") == 14).await?;
    note_sets(t, "web").await?;
    patch(t, &path, &json!({ "spec": { "paused": false, "replicas": 3 } })).await?;
    get_ready(t, &path, "web").await?;
    note_sets(t, "web").await
}

async fn adopted(t: &CaseRun) -> Result<()> {
    let pods = t.core("pods");
    let labels = json!({ "app": "web" });
    let container = json!([{ "name": "c", "image": "registry.example.com/c:1" }]);
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "orphan", "labels": labels },
        "spec": { "containers": container },
    });
    t.create(&pods, &orphan).await?.code(201)?;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels }, "spec": { "containers": container },
        } },
    });
    let sets = t.api("apps/v1", "replicasets");
    t.create(&sets, &set).await?.code(201)?;
    let path = format!("{sets}/web");
    let seen = until(t, &path, |it| count(it, "replicas") == 2).await?;
    t.note("status", seen["status"].clone()).await;
    let all = until(t, &pods, |list| items(list).len() == 2).await?;
    let owned = items(&all);
    let owned = owned
        .iter()
        .filter(|pod| pod["metadata"]["ownerReferences"][0]["name"] == "web");
    t.note("owned", owned.count()).await;
    let other = json!({ "metadata": { "labels": { "app": "other" } } });
    patch(t, &t.core("pods/orphan"), &other).await?;
    let let_go = until(t, &t.core("pods/orphan"), |it| {
        it["metadata"].get("ownerReferences").is_none()
    })
    .await?;
    t.note("labels", let_go["metadata"]["labels"].clone()).await;
    until(t, &pods, |list| items(list).len() == 3).await?;
    Ok(())
}

async fn cascade(t: &CaseRun) -> Result<()> {
    for policy in ["Background", "Foreground", "Orphan"] {
        let name = policy.to_lowercase();
        let path = deployed(t, &name, 2, &json!({})).await?;
        let options = json!({ "propagationPolicy": policy }).to_string();
        let json = ("content-type", "application/json");
        t.quiet("DELETE", &path, &[json], options).await?.code(200)?;
        gone(t, &path).await?;
        let selector = format!("replicasets?labelSelector=app%3D{name}");
        let left = usize::from(policy == "Orphan");
        let sets = t.api("apps/v1", &selector);
        let sets = until(t, &sets, |list| items(list).len() == left).await?;
        let owners = &sets["items"][0]["metadata"]["ownerReferences"];
        t.note("owners left", owners.clone()).await;
        let pods = t.core(&format!("pods?labelSelector=app%3D{name}"));
        until(t, &pods, |list| items(list).len() == left * 2).await?;
    }
    Ok(())
}

async fn left_behind(t: &CaseRun) -> Result<()> {
    let container = json!([{ "name": "c", "image": "registry.example.com/c:1" }]);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "job" },
        "spec": { "template": { "spec": { "containers": container, "restartPolicy": "Never" } } },
    });
    let jobs = t.api("batch/v1", "jobs");
    t.quiet("POST", &jobs, &[("content-type", "application/json")], job.to_string())
        .await?
        .code(201)?;
    let gone = t.quiet("DELETE", &format!("{jobs}/job"), &[], "").await?;
    t.note("job", gone.body["metadata"]["finalizers"].clone()).await;
    t.note("warnings", json!(gone.warnings)).await;
    let labels = json!({ "app": "web" });
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": { "name": "rc", "labels": labels },
        "spec": { "replicas": 0, "selector": labels, "template": {
            "metadata": { "labels": labels }, "spec": { "containers": container },
        } },
    });
    t.create(&t.core("replicationcontrollers"), &controller)
        .await?
        .code(201)?;
    let gone = t.delete(&t.core("replicationcontrollers/rc")).await?;
    gone.code(200)?.has("/metadata/finalizers", json!(["orphan"]))?;
    t.get("/version?timeout=invalid").await?.code(400)?;
    t.get("/version?timeout=1d").await?.code(400)?;
    Ok(())
}

//! Rules of single kinds that are met rarely: found by random operations on both servers, kept here
//! as the few requests that show them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::with;

pub(super) const CASES: &[Case] = &[
    Case::new("rules/a-patch-takes-the-api-version", |t| Box::pin(unversioned(t))),
    Case::new("rules/policies-of-jobs", |t| Box::pin(policies(t))),
    Case::new("rules/status-of-jobs", |t| Box::pin(job_status(t))),
    Case::new("rules/schedules-of-cron-jobs", |t| Box::pin(schedules(t))),
    Case::new("rules/metadata-of-daemon-sets", |t| Box::pin(daemons(t))),
    Case::new("rules/deletion-of-jobs-warns", |t| Box::pin(deletion(t))),
    Case::new("rules/metadata-is-checked-again", |t| Box::pin(checks(t))),
    Case::new("rules/an-eviction-that-is-refused-warns", |t| Box::pin(eviction(t))),
    Case::new("rules/an-address-in-the-old-form", |t| Box::pin(old_address(t))),
    Case::new("rules/an-address-nobody-may-keep", |t| Box::pin(kept_address(t))),
    Case::new("rules/daemon-sets-that-do-not-roll", |t| Box::pin(unused_rolling(t))),
    Case::new("rules/topology-moves-the-generation", |t| Box::pin(topology(t))),
];

fn job(spec: &Value) -> Value {
    let container = json!([{ "name": "c", "image": "registry.example.com/c:1" }]);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "job", "labels": { "app": "job" } },
        "spec": { "template": { "spec": { "containers": container, "restartPolicy": "Never" } } },
    });
    with(&job, json!({ "spec": spec }))
}

/// The version of the object is looked at before what is left of it.
async fn unversioned(t: &CaseRun) -> Result<()> {
    t.new_widget("one", json!({ "size": "S" })).await?;
    let path = t.widget("one");
    let patch = json!({ "apiVersion": null });
    t.merge(&path, &patch).await?.code(500)?;
    let stale = json!({ "apiVersion": null, "metadata": { "resourceVersion": "1" } });
    t.merge(&path, &stale).await?.code(409)?;
    Ok(())
}

async fn policies(t: &CaseRun) -> Result<()> {
    let jobs = t.api("batch/v1", "jobs");
    let labels = json!({ "app": "mine" });
    let own = job(&json!({
        "manualSelector": true, "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels } },
    }));
    let own = with(&own, json!({ "metadata": { "name": "own" } }));
    t.create(&jobs, &own).await?.code(201)?;
    let given = json!({ "spec": { "manualSelector": false } });
    let answer = t
        .quiet(
            "PATCH",
            &format!("{jobs}/own"),
            &[("content-type", crate::case_run::MERGE)],
            given.to_string(),
        )
        .await?;
    let causes = answer.body["details"]["causes"].as_array().map_or(0, Vec::len);
    t.note("causes", json!(causes)).await;
    for spec in [
        json!({ "successPolicy": { "rules": [{ "succeededCount": 1 }] } }),
        json!({ "successPolicy": { "rules": [] }, "completionMode": "Indexed", "completions": 2 }),
        json!({
            "completionMode": "Indexed", "completions": 2,
            "successPolicy": { "rules": [{}, { "succeededCount": 3, "succeededIndexes": "1,0" }] },
        }),
        json!({ "managedBy": "nobody" }),
        json!({ "managedBy": "Example.com/a b" }),
    ] {
        t.create(&jobs, &job(&spec)).await?.code(422)?;
    }
    Ok(())
}

async fn job_status(t: &CaseRun) -> Result<()> {
    let jobs = t.api("batch/v1", "jobs");
    let indexed = json!({
        "completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 1,
    });
    t.quiet(
        "POST",
        &jobs,
        &[("content-type", "application/json")],
        job(&indexed).to_string(),
    )
    .await?
    .code(201)?;
    let path = format!("{jobs}/job/status");
    for status in [
        json!({ "completedIndexes": "1-" }),
        json!({ "completedIndexes": "5" }),
        json!({ "completedIndexes": "0-1", "failedIndexes": "1" }),
        json!({ "uncountedTerminatedPods": { "succeeded": ["a"], "failed": ["a", ""] } }),
        json!({ "conditions": [{ "type": "Complete", "status": "True" }], "ready": 2 }),
    ] {
        t.merge(&path, &json!({ "status": status })).await?.code(422)?;
    }
    Ok(())
}

async fn schedules(t: &CaseRun) -> Result<()> {
    let template = job(&json!({}))["spec"].clone();
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "cron" },
        "spec": { "schedule": "@hourly", "jobTemplate": { "spec": template } },
    });
    let path = format!("{}?dryRun=All", t.api("batch/v1", "cronjobs"));
    for (schedule, zone, code) in [
        ("@every 1h30m", "Europe/Berlin", 201),
        ("@every 5", "Etc/UTC", 422),
        ("@every 5x", "UTC", 422),
        ("@every ", "Nowhere/Land", 422),
        ("@daily", "europe/berlin", 422),
    ] {
        let spec = json!({ "schedule": schedule, "timeZone": zone });
        let cron = with(&cron, json!({ "spec": spec }));
        t.create(&path, &cron).await?.code(code)?;
    }
    Ok(())
}

/// The count of the template's changes is no annotation in the server's own form.
async fn daemons(t: &CaseRun) -> Result<()> {
    let path = t.api("apps/v1", "daemonsets");
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": {
                "metadata": { "labels": { "app": "agent" } },
                "spec": { "containers": [{ "name": "c", "image": "registry.example.com/c:1" }] },
            },
        },
    });
    t.create(&path, &daemons).await?.code(201)?;
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let one = format!("{path}/agent");
    let answer = t.send("GET", &one, &[("accept", partial)], "").await?;
    answer.code(200)?;
    Ok(())
}

async fn deletion(t: &CaseRun) -> Result<()> {
    let jobs = t.api("batch/v1", "jobs");
    t.delete(&format!("{jobs}/none")).await?.code(404)?;
    t.delete(&format!("{jobs}?labelSelector=app%3Dnone")).await?.code(200)?;
    Ok(())
}

/// How often, and in which order with the rest, is the kind's own choice.
async fn checks(t: &CaseRun) -> Result<()> {
    let owner = json!([{ "apiVersion": "a/b/c", "kind": "", "name": "", "uid": "" }]);
    let bad = json!({ "metadata": { "ownerReferences": owner } });
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web" },
        "spec": { "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } },
    });
    let path = t.api("networking.k8s.io/v1", "ingresses");
    t.create(&path, &ingress).await?.code(201)?;
    t.merge(&format!("{path}/web"), &bad).await?.code(422)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "pod" },
        "spec": { "containers": [{ "name": "c", "image": "registry.example.com/c:1" }] },
    });
    t.create(&t.core("pods"), &pod).await?.code(201)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fixed" }, "immutable": true,
    });
    t.create(&t.core("secrets"), &secret).await?.code(201)?;
    let loose = with(&bad, json!({ "immutable": false }));
    t.merge(&t.core("secrets/fixed"), &loose).await?.code(422)?;
    let unnamed = json!({ "spec": { "containers": [{ "name": "c", "image": "" }] } });
    let worse = with(&bad, unnamed);
    t.merge(&t.core("pods/pod"), &worse).await?.code(422)?;
    let generated = json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": { "generateName": "gen.", "labels": { "app": "rc" } },
        "spec": { "replicas": -1, "selector": { "app": "rc" }, "template": {
            "metadata": { "labels": { "app": "rc" } }, "spec": pod["spec"],
        } },
    });
    let answer = t
        .quiet(
            "POST",
            &t.core("replicationcontrollers"),
            &[("content-type", "application/json")],
            generated.to_string(),
        )
        .await?;
    t.note("causes", answer.body["details"]["causes"].clone()).await;
    Ok(())
}

async fn eviction(t: &CaseRun) -> Result<()> {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "pod" }, "bogus": 1,
    });
    let path = "/api/v1/namespaces/none-such/pods/pod/eviction";
    t.create(path, &eviction).await?.code(404)?;
    Ok(())
}

/// A service that had none gets an address in the old form only: it is shown in both.
async fn old_address(t: &CaseRun) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "type": "ExternalName", "externalName": "db.example.com" },
    });
    t.create(&t.core("services"), &service).await?.code(201)?;
    let path = t.core("services/web");
    let patch = json!({ "spec": { "clusterIP": "10.0.0.5", "clusterIPs": null } });
    t.strategic(&path, &patch).await?;
    t.get(&path).await?.code(200)?;
    Ok(())
}

/// An address that a service outside of the cluster was left with makes its next change impossible.
async fn kept_address(t: &CaseRun) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "left" },
        "spec": { "ports": [{ "port": 80 }] },
    });
    // Which address it is given is no matter.
    let json = [("content-type", "application/json")];
    let services = t.core("services");
    let made = t.quiet("POST", &services, &json, service.to_string());
    made.await?.code(201)?;
    let path = t.core("services/left");
    let outside = json!({ "spec": {
        "type": "ExternalName", "externalName": "db.example.com", "clusterIP": "10.0.0.9", "clusterIPs": null,
    } });
    t.merge(&path, &outside).await?.code(200)?;
    let note = json!({ "metadata": { "annotations": { "note": "1" } } });
    t.merge(&path, &note).await?.code(422)?;
    t.merge(&format!("{path}/status"), &note).await?.code(200)?;
    // It is not the service's, so another may have it.
    let taker = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "taker" },
        "spec": { "clusterIP": "10.0.0.9", "ports": [{ "port": 80 }] },
    });
    t.create(&services, &taker).await?.code(201)?;
    Ok(())
}

/// What is not used of a rolling update comes back as 0.
async fn unused_rolling(t: &CaseRun) -> Result<()> {
    let labels = json!({ "app": "agent" });
    let container = json!([{ "name": "c", "image": "registry.example.com/c:1" }]);
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": container } },
            "updateStrategy": { "type": "OnDelete", "rollingUpdate": { "maxUnavailable": "20%" } },
        },
    });
    let path = t.api("apps/v1", "daemonsets");
    let made = t.create(&path, &daemons).await?.code(201)?;
    let strategy = made.body["spec"]["updateStrategy"].clone();
    t.note("strategy", strategy).await;
    Ok(())
}

/// A field that is dropped is a change all the same.
async fn topology(t: &CaseRun) -> Result<()> {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": { "name": "slice" },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.2"] }], "ports": [],
    });
    let path = t.api("discovery.k8s.io/v1", "endpointslices");
    t.create(&path, &slice).await?.code(201)?;
    let again = json!({ "endpoints": [{
        "addresses": ["192.0.2.2"], "deprecatedTopology": { "example.com/zone": "a" },
    }] });
    let changed = t.merge(&format!("{path}/slice"), &again).await?.code(200)?;
    t.note("generation", changed.body["metadata"]["generation"].clone())
        .await;
    Ok(())
}

//! Kubernetes' protobuf: what typed clients of Go send and ask for. Answers are decoded, so that the
//! two servers are compared member by member.

use anyhow::{Context, Result, ensure};
use aplomb_apiserver::http::protobuf;
use serde_json::{Value, json};

use super::samples;
use crate::answer::Answer;
use crate::case::Case;
use crate::case_run::{CaseRun, GROUP};
use crate::verbs::{config_map, with};

pub(super) const CASES: &[Case] = &[
    Case::new("protobuf/every-kind-in-both-forms", |t| Box::pin(kinds(t))),
    Case::new("protobuf/an-update-and-a-deletion", |t| Box::pin(verbs(t))),
    Case::new("protobuf/a-watch", |t| Box::pin(watch(t))),
    Case::new("protobuf/a-watch-that-is-refused", |t| Box::pin(refused(t))),
    Case::new("protobuf/errors", |t| Box::pin(errors(t))),
    Case::new("protobuf/bodies-that-are-none", |t| Box::pin(garbage(t))),
    Case::new("protobuf/other-shapes", |t| Box::pin(shapes(t))),
    Case::new("protobuf/custom-resources", |t| Box::pin(custom(t))),
    Case::new("protobuf/discovery", |t| Box::pin(discovery(t))),
    Case::new("protobuf/reviews", |t| Box::pin(reviews(t))),
];

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL: &str = "g=meta.k8s.io;v=v1;as=PartialObjectMetadata";

/// Sends an object as protobuf and asks for protobuf.
async fn send(t: &CaseRun, method: &str, path: &str, object: &Value) -> Result<Answer> {
    let headers = [("accept", PROTOBUF), ("content-type", PROTOBUF)];
    let body = if object.is_null() {
        Vec::new()
    } else {
        protobuf::encode(object).context("a kind of the table")?
    };
    t.send(method, path, &headers, body).await
}

async fn get(t: &CaseRun, path: &str, accept: &str) -> Result<Answer> {
    t.send("GET", path, &[("accept", accept)], "").await
}

/// Without what JSON shows of a Go value that holds nothing.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(bare).collect(),
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(key, member)| (key.clone(), bare(member)))
            .collect(),
        other => other.clone(),
    }
}

async fn kinds(t: &CaseRun) -> Result<()> {
    for (path, object) in samples::all(t) {
        send(t, "POST", &path, &object).await?.code(201)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{path}/{name}");
        let read = get(t, &path, PROTOBUF).await?.code(200)?;
        ensure!(read.content_type == PROTOBUF, "{}", read.content_type);
        let text = t.quiet("GET", &path, &[], "").await?;
        let (read, text) = (bare(&read.body), bare(&text.body));
        ensure!(read == text, "{path}: {read} is not {text}");
    }
    Ok(())
}

async fn verbs(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps");
    let made = send(t, "POST", &path, &config_map("a", json!({ "k": "" }))).await?;
    let path = format!("{path}/a");
    let changed = with(&made.code(201)?.body, json!({ "data": { "l": "2" } }));
    send(t, "PUT", &path, &changed).await?.code(200)?;
    send(t, "PUT", &path, &changed).await?.refused(409, "Conflict")?;
    let patch = json!({ "immutable": false }).to_string();
    let headers = [("accept", PROTOBUF), ("content-type", "application/merge-patch+json")];
    t.send("PATCH", &path, &headers, patch).await?.code(200)?;
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": { "uid": "other" },
    });
    send(t, "DELETE", &path, &options).await?.refused(409, "Conflict")?;
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"] });
    send(t, "DELETE", &path, &options).await?.code(200)?;
    send(t, "DELETE", &path, &Value::Null).await?.code(200)?;
    get(t, &path, PROTOBUF).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn watch(t: &CaseRun) -> Result<()> {
    let path = t.core("secrets");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "a", "labels": { "case": "watch" } }, "data": { "k": "AAE=" },
    });
    let made = send(t, "POST", &path, &secret).await?.code(201)?;
    let version = made.version()? - 1;
    t.merge(&format!("{path}/a"), &json!({ "data": { "l": "" } }))
        .await?
        .code(200)?;
    t.delete(&format!("{path}/a")).await?.code(200)?;
    let path = format!("{path}?watch=1&timeoutSeconds=1&labelSelector=case%3Dwatch&resourceVersion={version}");
    for shape in [PROTOBUF.to_owned(), format!("{PROTOBUF};{PARTIAL}")] {
        let answer = t.quiet("GET", &path, &[("accept", &shape)], "").await?;
        ensure!(answer.content_type == format!("{PROTOBUF};stream=watch"));
        let events = answer.code(200)?.body;
        let kinds: Vec<_> = events.as_array().into_iter().flatten().collect();
        let kinds: Vec<_> = kinds.iter().map(|event| event["type"].clone()).collect();
        ensure!(kinds == ["ADDED", "MODIFIED", "DELETED"], "{events}");
        t.note("events", events).await;
    }
    Ok(())
}

async fn refused(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps?watch=1&timeoutSeconds=1&resourceVersion=text");
    get(t, &path, PROTOBUF).await?.code(500)?;
    let path = t.core("configmaps?watch=1&timeoutSeconds=1&resourceVersion=0");
    // How YAML breaks lines is no rule.
    let headers = [("accept", "application/yaml")];
    t.quiet("GET", &path, &headers, "").await?.code(406)?;
    Ok(())
}

async fn errors(t: &CaseRun) -> Result<()> {
    let missing = t.core("configmaps/missing");
    get(t, &missing, PROTOBUF).await?.refused(404, "NotFound")?;
    get(t, "/apis/apps/v1/nothing", PROTOBUF).await?.code(404)?;
    get(t, &t.core("pods?labelSelector=%3D%3D"), PROTOBUF)
        .await?
        .code(400)?;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "UPPER" } });
    send(t, "POST", &t.core("services"), &service)
        .await?
        .refused(422, "Invalid")?;
    let nameless = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
    send(t, "POST", &t.core("configmaps"), &nameless)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn garbage(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps");
    let frame = |kind: &str, rest: &[u8]| {
        let length = u8::try_from(kind.len()).unwrap_or_default();
        let head = [&b"k8s\0\n"[..], &[length + 6], b"\n\x02v1\x12", &[length]].concat();
        [&head, kind.as_bytes(), rest].concat()
    };
    let bodies = [
        b"".to_vec(),
        b"garbage".to_vec(),
        b"{\"kind\":\"ConfigMap\"}".to_vec(),
        b"k8s\0".to_vec(),
        b"k8s\0\xff\xff\xff".to_vec(),
        frame("ConfigMap", b"\x12\x02\x08\x01"),
        frame("ConfigMap", b"\x12\x05\x0a\x03\x0a\x05a"),
        frame("ConfigMap", b"\x12\x02\x0c\x01"),
        frame("ConfigMap", b"\x12\x02\x0e\x01"),
        frame("ConfigMap", b"\x12\x02\x02\x01"),
        frame("ConfigMap", b"\x12\x02\x0b\x0c"),
        frame("ConfigMap", b"\x12\x02\x7e\x01"),
        frame("ConfigMap", b"\x12\x03\x7b\x08\x01"),
        frame("Namespace", b"\x12\x05\x0a\x03\x0a\x01a"),
        frame("Nothing", b"\x12\x00"),
    ];
    let headers = [("content-type", PROTOBUF)];
    for body in bodies {
        t.send("POST", &path, &headers, body.clone()).await?.code(400)?;
        if !body.is_empty() {
            let path = t.core("configmaps/missing");
            t.send("DELETE", &path, &headers, body).await?;
        }
    }
    let headers = [("content-type", "application/vnd.kubernetes.protobuf;x")];
    t.send("POST", &path, &headers, "k8s").await?.code(415)?;
    Ok(())
}

async fn shapes(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps");
    let object = config_map("a", json!({ "k": "v" }));
    send(t, "POST", &path, &object).await?.code(201)?;
    let one = format!("{path}/a");
    let selected = format!("{path}?fieldSelector=metadata.name%3Da");
    for (path, accept) in [
        (&selected, PROTOBUF.to_owned()),
        (&one, format!("{PROTOBUF};{PARTIAL}")),
        (&selected, format!("{PROTOBUF};{PARTIAL}List")),
        (&one, format!("{PROTOBUF};{PARTIAL}List")),
        (&selected, format!("{PROTOBUF};{PARTIAL}")),
        (&one, format!("{PROTOBUF};g=meta.k8s.io;v=v1;as=Table")),
        (
            &one,
            format!("{PROTOBUF};g=meta.k8s.io;v=v1;as=Table, application/json"),
        ),
        (&one, format!("{PROTOBUF},application/json")),
        (&one, format!("application/json;q=0.8, {PROTOBUF}")),
        (&one, format!("{PROTOBUF};q=0.5, application/json")),
        (&one, "*/*".to_owned()),
        (&one, "application/vnd.kubernetes.*".to_owned()),
    ] {
        t.note("accept", accept.as_str()).await;
        get(t, path, &accept).await?;
    }
    Ok(())
}

async fn custom(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let (one, all) = (t.widget("a"), t.widgets());
    for (path, accept) in [
        (&one, PROTOBUF.to_owned()),
        (&all, PROTOBUF.to_owned()),
        (&one, format!("{PROTOBUF},application/json")),
        (&one, format!("{PROTOBUF};{PARTIAL}")),
        (&all, format!("{PROTOBUF};{PARTIAL}List")),
        (&all, format!("{PROTOBUF};g=meta.k8s.io;v=v1;as=Table")),
        (&format!("{one}/scale"), PROTOBUF.to_owned()),
    ] {
        t.note("accept", accept.as_str()).await;
        get(t, path, &accept).await?;
    }
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": { "name": "a", "namespace": t.namespace }, "spec": { "replicas": 3 },
    });
    let body = protobuf::encode(&scale).context("a kind of the table")?;
    let headers = [("content-type", PROTOBUF)];
    t.send("PUT", &format!("{one}/scale"), &headers, body)
        .await?
        .code(200)?
        .has("/spec/replicas", 3)?;
    let watch = format!("{all}?watch=1&timeoutSeconds=1");
    get(t, &watch, PROTOBUF).await?.code(406)?;
    let options = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "DeleteOptions",
        "propagationPolicy": "Background",
    });
    let body = protobuf::encode(&options).context("a kind of the table")?;
    t.send("DELETE", &one, &headers, body).await?.code(200)?;
    Ok(())
}

async fn discovery(t: &CaseRun) -> Result<()> {
    for path in ["/apis/apps", "/apis/apps/v1", "/apis/rbac.authorization.k8s.io/v1"] {
        get(t, path, PROTOBUF).await?.code(200)?;
    }
    get(t, "/version", PROTOBUF).await?.code(406)?;
    let core = t.quiet("GET", "/api", &[("accept", PROTOBUF)], "").await?;
    core.code(200)?
        .has("/kind", "APIVersions")?
        .has("/versions", json!(["v1"]))?;
    let accept = format!("{PROTOBUF};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let aggregated = t.quiet("GET", "/api", &[("accept", &accept)], "").await?;
    ensure!(aggregated.content_type == accept);
    aggregated
        .code(200)?
        .has("/kind", "APIGroupDiscoveryList")?
        .has("/items/0/versions/0/version", "v1")?;
    Ok(())
}

async fn reviews(t: &CaseRun) -> Result<()> {
    let group = "authorization.k8s.io/v1";
    let path = |plural: &str| format!("/apis/{group}/{plural}");
    let of = |kind: &str, spec: Value| json!({ "apiVersion": group, "kind": kind, "spec": spec });
    let attributes = json!({ "verb": "get", "resource": "pods", "namespace": t.namespace });
    let spec = json!({ "resourceAttributes": attributes });
    let review = of("SelfSubjectAccessReview", spec);
    send(t, "POST", &path("selfsubjectaccessreviews"), &review)
        .await?
        .code(201)?
        .has("/status/allowed", true)?;
    let spec = json!({ "user": "nobody", "nonResourceAttributes": { "path": "/x", "verb": "get" } });
    let review = of("SubjectAccessReview", spec);
    send(t, "POST", &path("subjectaccessreviews"), &review)
        .await?
        .code(201)?
        .has("/status/allowed", false)?;
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let body = protobuf::encode(&review).context("a kind of the table")?;
    let headers = [("accept", PROTOBUF), ("content-type", PROTOBUF)];
    // Who the user is differs.
    let answer = t.quiet("POST", path, &headers, body).await?.code(201)?;
    ensure!(!answer.text("/status/userInfo/username").is_empty(), "{}", answer.body);
    Ok(())
}

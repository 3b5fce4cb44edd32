//! Reads everything that a trace is made from. What this user may not read is reported as a gap, not an error.

use std::collections::BTreeSet;

use anyhow::Result;
use aplomb_console::trace::{Relative, RelativeFilter, RelativeQuery, TraceInputs, looks};
use kube::Client;
use serde_json::Value;

use crate::cluster::ClusterClient;
use crate::fault;
use crate::find::FoundOperators;
use crate::get::words::KindQuery;

/// How many steps from the object relatives are read.
const DEPTH: usize = 3;
/// Only metadata: the contents of a Secret are never requested.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The object, if it exists.
pub(super) async fn object(cluster: &ClusterClient, wanted: &KindQuery) -> Result<Option<Value>> {
    let path = wanted.path(Some(&cluster.namespace));
    match read(&cluster.client, &path, false).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Everything known about it.
pub(super) async fn evidence(
    cluster: &ClusterClient,
    object: Value,
    found: FoundOperators,
) -> Result<TraceInputs> {
    let mut evidence = TraceInputs {
        gaps: found.gaps.clone(),
        ..TraceInputs::default()
    };
    relatives(&cluster.client, &object, &mut evidence).await;
    events(&cluster.client, &object, &mut evidence).await;
    journal(&found, &object, &mut evidence).await;
    evidence.object = object;
    Ok(evidence)
}

async fn relatives(client: &Client, object: &Value, evidence: &mut TraceInputs) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut next = vec![object.clone()];
    for _ in 0..DEPTH {
        let mut below = Vec::new();
        for one in next {
            let uid = text(&one, "/metadata/uid").to_owned();
            if !seen.insert(uid.clone()) {
                continue;
            }
            for look in looks(&one) {
                let found = look_for(client, &look, &uid, &mut evidence.gaps).await;
                below.extend(found.iter().filter_map(|it| it.object.clone()));
                evidence.relatives.extend(found);
            }
        }
        next = below;
    }
}

async fn look_for(
    client: &Client,
    look: &RelativeQuery,
    of: &str,
    gaps: &mut Vec<String>,
) -> Vec<Relative> {
    let mut path = match look.api_version {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    if let Some(namespace) = &look.namespace {
        path.push_str(&format!("/namespaces/{namespace}"));
    }
    path.push_str(&format!("/{}", look.plural));
    if let RelativeFilter::Name(name) = &look.by {
        path.push_str(&format!("/{name}"));
    }
    let relative = |name: &str, exists: Option<bool>, object: Option<Value>| Relative {
        of: of.to_owned(),
        kind: look.kind.to_owned(),
        namespace: look.namespace.clone(),
        name: name.to_owned(),
        role: look.role.to_owned(),
        exists,
        object,
    };
    let answer = read(client, &path, look.kind == "Secret").await;
    match (answer, &look.by) {
        (Ok(object), RelativeFilter::Name(name)) => {
            vec![relative(name, Some(true), Some(of_kind(object, look)))]
        }
        (Ok(list), by) => {
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let meant = items.into_iter().filter(|it| by.means(it));
            let each = meant.map(|it| {
                let name = text(&it, "/metadata/name").to_owned();
                relative(&name, Some(true), Some(of_kind(it, look)))
            });
            each.collect()
        }
        (Err(kube::Error::Api(status)), RelativeFilter::Name(name)) if status.code == 404 => {
            vec![relative(name, Some(false), None)]
        }
        // A kind that is not installed has no objects.
        (Err(kube::Error::Api(status)), _) if status.code == 404 => Vec::new(),
        (Err(error), by) => {
            gaps.push(format!("{}: {}", look.plural, fault::of_server(&error)));
            match by {
                RelativeFilter::Name(name) => vec![relative(name, None, None)],
                _ => Vec::new(),
            }
        }
    }
}

/// Items of a list may lack apiVersion and kind.
fn of_kind(mut object: Value, look: &RelativeQuery) -> Value {
    object["kind"] = look.kind.into();
    object
}

async fn events(client: &Client, object: &Value, evidence: &mut TraceInputs) {
    let uid = text(object, "/metadata/uid");
    let namespace = match text(object, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    };
    let path =
        format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}");
    match read(client, &path, false).await {
        Ok(list) => {
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let about = |event: &Value| text(event, "/involvedObject/uid") == uid;
            evidence.events = items.into_iter().filter(about).collect();
        }
        Err(error) => evidence
            .gaps
            .push(format!("events: {}", fault::of_server(&error))),
    }
}

async fn journal(found: &FoundOperators, object: &Value, evidence: &mut TraceInputs) {
    let mut path = format!("/debug/journal/{}", text(object, "/kind"));
    let parts = [
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    ];
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        path.push_str(&format!("/{part}"));
    }
    let mut heard = false;
    for admin in &found.admins {
        match admin.get(&path).await {
            Ok(lines) => {
                heard = true;
                let lines = lines.as_ref().and_then(Value::as_array);
                evidence
                    .journal
                    .extend(lines.into_iter().flatten().cloned());
            }
            Err(error) => evidence.gaps.push(fault::line(&error)),
        }
    }
    if heard && evidence.journal.is_empty() {
        let gap = "the operators have no journal of it: they started after its last change, or do not reconcile it";
        evidence.gaps.push(gap.to_owned());
    }
}

async fn read(client: &Client, path: &str, metadata: bool) -> kube::Result<Value> {
    let accept = if metadata {
        METADATA
    } else {
        "application/json"
    };
    let request = http::Request::get(path).header("Accept", accept);
    let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

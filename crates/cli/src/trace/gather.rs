//! Reads everything that a trace is made from. What this user may not read is reported as a gap, not an error.

use std::collections::BTreeSet;

use anyhow::Result;
use aplomb_console::trace::{Relative, RelativeFilter, RelativeQuery, TraceInputs, relative_queries};
use kube::Client;
use serde_json::Value;

use crate::cluster::ClusterClient;
use crate::discovery::FoundOperators;
use crate::error_text;
use crate::get::query::KindQuery;

/// How many steps from the object relatives are read.
const MAX_DEPTH: usize = 3;
/// Only metadata: the contents of a Secret are never requested.
const METADATA_LIST_ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The object, if it exists.
pub(super) async fn read_object(cluster: &ClusterClient, wanted: &KindQuery) -> Result<Option<Value>> {
    let path = wanted.api_path(Some(&cluster.namespace));
    match read_json(&cluster.client, &path, false).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Everything known about it.
pub(super) async fn gather_inputs(
    cluster: &ClusterClient,
    object: Value,
    found: FoundOperators,
) -> Result<TraceInputs> {
    let mut evidence = TraceInputs {
        gaps: found.gaps.clone(),
        ..TraceInputs::default()
    };
    gather_relatives(&cluster.client, &object, &mut evidence).await;
    gather_events(&cluster.client, &object, &mut evidence).await;
    gather_journal(&found, &object, &mut evidence).await;
    evidence.object = object;
    Ok(evidence)
}

async fn gather_relatives(client: &Client, object: &Value, evidence: &mut TraceInputs) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut next = vec![object.clone()];
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for one in next {
            let uid = str_at(&one, "/metadata/uid").to_owned();
            if !seen.insert(uid.clone()) {
                continue;
            }
            for look in relative_queries(&one) {
                let found = find_relatives(client, &look, &uid, &mut evidence.gaps).await;
                below.extend(found.iter().filter_map(|it| it.object.clone()));
                evidence.relatives.extend(found);
            }
        }
        next = below;
    }
}

async fn find_relatives(client: &Client, look: &RelativeQuery, of: &str, gaps: &mut Vec<String>) -> Vec<Relative> {
    let mut path = match look.api_version {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    if let Some(namespace) = &look.namespace {
        path.push_str(&format!("/namespaces/{namespace}"));
    }
    path.push_str(&format!("/{}", look.plural));
    if let RelativeFilter::Name(name) = &look.filter {
        path.push_str(&format!("/{name}"));
    }
    let relative = |name: &str, exists: Option<bool>, object: Option<Value>| Relative {
        parent: of.to_owned(),
        kind: look.kind.to_owned(),
        namespace: look.namespace.clone(),
        name: name.to_owned(),
        role: look.role.to_owned(),
        exists,
        object,
    };
    let answer = read_json(client, &path, look.kind == "Secret").await;
    match (answer, &look.filter) {
        (Ok(object), RelativeFilter::Name(name)) => {
            vec![relative(name, Some(true), Some(with_kind(object, look)))]
        }
        (Ok(list), by) => {
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let meant = items.into_iter().filter(|it| by.matches(it));
            let each = meant.map(|it| {
                let name = str_at(&it, "/metadata/name").to_owned();
                relative(&name, Some(true), Some(with_kind(it, look)))
            });
            each.collect()
        }
        (Err(kube::Error::Api(status)), RelativeFilter::Name(name)) if status.code == 404 => {
            vec![relative(name, Some(false), None)]
        }
        // A kind that is not installed has no objects.
        (Err(kube::Error::Api(status)), _) if status.code == 404 => Vec::new(),
        (Err(error), by) => {
            gaps.push(format!("{}: {}", look.plural, error_text::server_error_line(&error)));
            match by {
                RelativeFilter::Name(name) => vec![relative(name, None, None)],
                _ => Vec::new(),
            }
        }
    }
}

/// Items of a list may lack apiVersion and kind.
fn with_kind(mut object: Value, look: &RelativeQuery) -> Value {
    object["kind"] = look.kind.into();
    object
}

async fn gather_events(client: &Client, object: &Value, evidence: &mut TraceInputs) {
    let uid = str_at(object, "/metadata/uid");
    let namespace = match str_at(object, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    };
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}");
    match read_json(client, &path, false).await {
        Ok(list) => {
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let about = |event: &Value| str_at(event, "/involvedObject/uid") == uid;
            evidence.events = items.into_iter().filter(about).collect();
        }
        Err(error) => evidence
            .gaps
            .push(format!("events: {}", error_text::server_error_line(&error))),
    }
}

async fn gather_journal(found: &FoundOperators, object: &Value, evidence: &mut TraceInputs) {
    let mut path = format!("/debug/journal/{}", str_at(object, "/kind"));
    let parts = [str_at(object, "/metadata/namespace"), str_at(object, "/metadata/name")];
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        path.push_str(&format!("/{part}"));
    }
    let mut heard = false;
    for admin in &found.admins {
        match admin.get(&path).await {
            Ok(lines) => {
                heard = true;
                let lines = lines.as_ref().and_then(Value::as_array);
                evidence.journal.extend(lines.into_iter().flatten().cloned());
            }
            Err(error) => evidence.gaps.push(error_text::error_line(&error)),
        }
    }
    if heard && evidence.journal.is_empty() {
        let gap = "the operators have no journal of it: they started after its last change, or do not reconcile it";
        evidence.gaps.push(gap.to_owned());
    }
}

async fn read_json(client: &Client, path: &str, metadata: bool) -> kube::Result<Value> {
    let accept = if metadata {
        METADATA_LIST_ACCEPT
    } else {
        "application/json"
    };
    let request = http::Request::get(path).header("Accept", accept);
    let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

fn str_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

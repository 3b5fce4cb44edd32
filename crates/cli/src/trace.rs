//! `aplomb trace KIND/NAME`: the history of one object. Reads everything about it, and prints it.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use aplomb_console::table::TableLayout;
use aplomb_console::trace::{ObjectTrace, Relative, RelativeFilter, RelativeQuery, TraceInputs, relative_queries};
use kube::Client;
use serde_json::Value;

use crate::EXIT_FINDING;
use crate::args::{TraceArgs, TraceOutput};
use crate::cluster::{ClusterClient, get_json, str_at};
use crate::discovery::{self, FoundOperators};
use crate::error_text;
use crate::get::query::{self, KindQuery};
use crate::output::{OutputStream, json_text};

/// How many steps from the object relatives are read.
const MAX_DEPTH: usize = 3;
/// Only metadata: the contents of a Secret are never requested.
const METADATA_LIST_ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

pub(crate) async fn run(args: TraceArgs, out: &OutputStream) -> Result<ExitCode> {
    let wanted = query::parse_name(&args.what.join("/"))?;
    let cluster = ClusterClient::from_args(&args.cluster).await?;
    let look = async {
        let Some(object) = read_object(&cluster, &wanted).await? else {
            return Ok(None);
        };
        let found = discovery::find_operators(&cluster, &args.admin.admin).await?;
        Ok(Some(gather_inputs(&cluster, object, found).await?))
    };
    let Some(evidence) = cluster.with_timeout(look).await? else {
        eprintln!("{}", wanted.not_found());
        return Ok(ExitCode::from(EXIT_FINDING));
    };
    let trace = ObjectTrace::from_inputs(&evidence, aplomb::Clock::system().now());
    match args.output {
        TraceOutput::Json => out.print(&json_text(&serde_json::to_value(&trace)?))?,
        TraceOutput::Text => out.print(&format_trace(&trace, out))?,
    }
    for gap in &trace.gaps {
        eprintln!("aplomb: not shown: {gap}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The sections of a trace, with the status of conditions colored.
fn format_trace(trace: &ObjectTrace, out: &OutputStream) -> String {
    let sections = trace.sections();
    let texts = sections.iter();
    let texts = texts.map(|lines| out.format_columns(&mut TableLayout::default(), lines));
    texts.collect::<Vec<_>>().join("\n")
}

async fn read_object(cluster: &ClusterClient, wanted: &KindQuery) -> Result<Option<Value>> {
    let path = wanted.api_path(Some(&cluster.namespace));
    match get_json(&cluster.client, &path).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn gather_inputs(cluster: &ClusterClient, object: Value, found: FoundOperators) -> Result<TraceInputs> {
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
    let answer = match look.kind {
        "Secret" => read_metadata(client, &path).await,
        _ => get_json(client, &path).await,
    };
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
    match get_json(client, &path).await {
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

async fn read_metadata(client: &Client, path: &str) -> kube::Result<Value> {
    let request = http::Request::get(path).header("Accept", METADATA_LIST_ACCEPT);
    client
        .request(request.body(Vec::new()).map_err(kube::Error::HttpError)?)
        .await
}

//! A stale API server: reads answered as of an older revision, watches that stand still.
//!
//! Every answer is built from requests that any API server understands (a list at an exact
//! version, a watch from a version), so nothing here knows which server is behind.

use std::fmt::Write as _;
use std::time::Duration;

use aplomb_apiserver::call::Verb;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tower::BoxError;

use super::answer::{self, Body};
use super::fault::{Stale, StaleReads};
use super::layer::Upstream;
use super::stream::{self as watch, Pieces};
use super::target::Target;

/// How long the server waits for a version it has not seen before it gives up.
const FUTURE_VERSION_WAIT: Duration = Duration::from_secs(3);

/// Answers a read as a server would that has seen nothing after `stale.revision`.
pub(super) async fn serve(
    upstream: &impl Upstream,
    head: Parts,
    target: &Target,
    stale: &Stale,
    catch_up: Option<Instant>,
) -> Result<Response<Body>, BoxError> {
    let query = Query::of(&head.uri);
    let version = query.version();
    let consistent = version.is_none() && query.get("sendInitialEvents").is_none();
    let paged = query.get("continue").is_some();
    let current = stale.reads == StaleReads::CacheOnly && consistent;
    match target.verb {
        Verb::Watch => open_watch(upstream, head, &query, stale, catch_up).await,
        _ if current || paged => {
            upstream
                .send(Request::from_parts(head, kube::client::Body::empty()))
                .await
        }
        _ if version.is_some_and(|asked| asked > stale.revision) => {
            sleep(FUTURE_VERSION_WAIT).await;
            let asked = version.unwrap_or_default();
            Ok(answer::error(&answer::too_large_version(asked, stale.revision)))
        }
        Verb::Get => get(upstream, &head, target, stale.revision).await,
        _ => upstream.send(exact_list(&head, &query, stale.revision, None)).await,
    }
}

/// A get, by way of a list of one.
async fn get(
    upstream: &impl Upstream,
    head: &Parts,
    target: &Target,
    revision: u64,
) -> Result<Response<Body>, BoxError> {
    let name = target.name.as_deref().unwrap_or_default();
    let list = exact_list(head, &Query::of(&head.uri), revision, Some(name));
    let response = upstream.send(list).await?;
    if !response.status().is_success() {
        return Ok(response);
    }
    Ok(match items(response).await?.into_iter().next() {
        Some(object) => answer::json_response(200, &object),
        None => answer::error(&answer::not_found(target)),
    })
}

/// The list of what `request` reads, at exactly `revision`; of one object if `name` is given.
fn exact_list(head: &Parts, query: &Query, revision: u64, name: Option<&str>) -> Request<kube::client::Body> {
    let path = head.uri.path();
    let path = match name {
        Some(name) => path
            .split_once(&format!("/{name}"))
            .map_or(path, |_| parent(path, name)),
        None => path,
    };
    let mut query = query.without(&WATCH_PARAMETERS);
    if let Some(name) = name {
        query.push("fieldSelector", &format!("metadata.name%3D{name}"));
    }
    query.push("resourceVersion", &revision.to_string());
    query.push("resourceVersionMatch", "Exact");
    rebuilt(head, &format!("{path}?{query}"), name.is_some())
}

const WATCH_PARAMETERS: [&str; 6] = [
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
];

/// The collection an object of this name (and any subresource of it) is in.
fn parent<'a>(path: &'a str, name: &str) -> &'a str {
    let whole = path.strip_suffix("/status").unwrap_or(path);
    whole.strip_suffix(name).map_or(path, |rest| rest.trim_end_matches('/'))
}

/// The same request as a read of another path on the same server.
fn rebuilt(head: &Parts, path_and_query: &str, one_as_list: bool) -> Request<kube::client::Body> {
    let mut parts = head.uri.clone().into_parts();
    parts.path_and_query = path_and_query.parse().ok();
    let uri = Uri::from_parts(parts).unwrap_or_else(|_| head.uri.clone());
    let mut read = Request::new(kube::client::Body::empty());
    *read.method_mut() = Method::GET;
    *read.uri_mut() = uri;
    *read.headers_mut() = head.headers.clone();
    *read.extensions_mut() = head.extensions.clone();
    let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    if one_as_list && let Some(accept) = accept {
        let accept = accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;");
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            read.headers_mut().insert(ACCEPT, accept);
        }
    }
    read
}

/// The objects of a list, each with the kind and version it may have left to the list.
async fn items(response: Response<Body>) -> Result<Vec<Value>, BoxError> {
    let bytes = response.into_body().collect().await?.to_bytes();
    let mut list: Value = serde_json::from_slice(&bytes)?;
    let kind = list["kind"]
        .as_str()
        .unwrap_or_default()
        .trim_end_matches("List")
        .to_owned();
    let api_version = list["apiVersion"].take();
    let Value::Array(mut items) = list["items"].take() else {
        return Ok(Vec::new());
    };
    for item in &mut items {
        if item["kind"].is_null() {
            item["kind"] = kind.as_str().into();
            item["apiVersion"] = api_version.clone();
        }
    }
    Ok(items)
}

/// A watch that shows the old state where it would show the present one, and nothing newer than
/// the revision until it catches up.
async fn open_watch(
    upstream: &impl Upstream,
    head: Parts,
    query: &Query,
    stale: &Stale,
    catch_up: Option<Instant>,
) -> Result<Response<Body>, BoxError> {
    let revision = stale.revision;
    let wants_state = query.get("sendInitialEvents") == Some("true");
    let from_present = query.version().is_none_or(|version| version == 0);
    if !from_present && !wants_state {
        let response = upstream
            .send(Request::from_parts(head, kube::client::Body::empty()))
            .await?;
        return Ok(response.map(|body| gate(body, revision, catch_up)));
    }
    let listed = upstream.send(exact_list(&head, query, revision, None)).await?;
    if !listed.status().is_success() {
        return Ok(listed);
    }
    let initial = initial_events(items(listed).await?, wants_state, revision);
    let mut from = query.without(&WATCH_PARAMETERS[1..4]);
    from.push("resourceVersion", &revision.to_string());
    let path = format!("{}?{from}", head.uri.path());
    let response = upstream.send(rebuilt(&head, &path, false)).await?;
    let initial = stream::iter(initial.into_iter().map(Ok));
    Ok(response.map(|body| {
        let later = watch::pieces(gate(body, revision, catch_up));
        watch::body(initial.chain(later).boxed())
    }))
}

fn initial_events(items: Vec<Value>, bookmark: bool, revision: u64) -> Vec<Bytes> {
    let kind = items.first().map_or(Value::Null, |item| item["kind"].clone());
    let api_version = items.first().map_or(Value::Null, |item| item["apiVersion"].clone());
    let mut events: Vec<Value> = items
        .into_iter()
        .map(|object| json!({ "type": "ADDED", "object": object }))
        .collect();
    if bookmark {
        let metadata = json!({
            "resourceVersion": revision.to_string(),
            "annotations": { "k8s.io/initial-events-end": "true" },
        });
        let object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        events.push(json!({ "type": "BOOKMARK", "object": object }));
    }
    events
        .into_iter()
        .map(|event| Bytes::from(format!("{event}\n")))
        .collect()
}

/// Lets events up to `revision` through, and the others only from `catch_up` on.
fn gate(body: Body, revision: u64, catch_up: Option<Instant>) -> Body {
    let lines = watch::lines(watch::pieces(body));
    let gated: Pieces = lines
        .then(move |line| async move {
            let newer = line.as_ref().is_ok_and(|line| version_of(line) > revision);
            match (newer, catch_up) {
                (true, Some(moment)) => sleep_until(moment).await,
                (true, None) => std::future::pending().await,
                (false, _) => {}
            }
            line
        })
        .boxed();
    watch::body(gated)
}

fn version_of(line: &[u8]) -> u64 {
    let event: Value = serde_json::from_slice(line).unwrap_or_default();
    let version = event["object"]["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The parameters of a URL, still encoded.
struct Query(Vec<(String, String)>);

impl Query {
    fn of(uri: &Uri) -> Self {
        let pairs = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let split = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.to_owned(), value.to_owned())
        };
        Self(pairs.map(split).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    fn version(&self) -> Option<u64> {
        self.get("resourceVersion").and_then(|version| version.parse().ok())
    }

    fn without(&self, keys: &[&str]) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(key, _)| !keys.contains(&key.as_str()))
                .cloned()
                .collect(),
        )
    }

    fn push(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }
}

impl std::fmt::Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_char('&')?;
            }
            write!(f, "{key}={value}")?;
        }
        Ok(())
    }
}

//! The page over HTTP: `/`, `/status.json`, `/events`, and their assets. Only GET and HEAD are allowed, so nothing
//! can be changed from here, and no header lets another origin read the responses.

mod events;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use aplomb::admin::{AdminRegistry, DebugState};
use aplomb::journal::JournalLine;
use aplomb::{Cache, Clock, Kind, ObjectRef};
use aplomb_api::{CoderProvisioner, CoderWorkspaceProxy, Connector, HttpProxy, StableEgress};
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::object_story::ObjectStory;
use crate::page;
use crate::status::{ObjectMap, ObjectName, Overview, OverviewInputs, find_resource};

/// How many pages can be live at once. More than these reload instead.
const MAX_READERS: usize = 64;

/// Only files of this origin, and no framing.
const CSP_VALUE: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A source of objects, engine states and journals: the admin registry of a process, fixed values in tests. Never waits for
/// a server.
pub trait DataSources: Send + Sync + 'static {
    /// Whole objects of our kinds, if they are watched.
    fn objects(&self) -> ObjectMap;

    fn engines(&self) -> Vec<(String, DebugState)>;

    /// The journal of an object, oldest first.
    fn journal(&self, object: &ObjectRef) -> Vec<JournalLine>;

    /// Changes whenever an object has changed.
    fn subscribe(&self) -> watch::Receiver<u64>;
}

impl DataSources for AdminRegistry {
    fn objects(&self) -> ObjectMap {
        let mut objects = ObjectMap::default();
        put_cache::<HttpProxy>(&mut objects, "HTTPProxy", self.cache());
        put_cache::<Connector>(&mut objects, "Connector", self.cache());
        put_cache::<StableEgress>(&mut objects, "StableEgress", self.cache());
        put_cache::<CoderProvisioner>(&mut objects, "CoderProvisioner", self.cache());
        put_cache::<CoderWorkspaceProxy>(&mut objects, "CoderWorkspaceProxy", self.cache());
        objects
    }

    fn engines(&self) -> Vec<(String, DebugState)> {
        AdminRegistry::engines(self)
    }

    fn journal(&self, object: &ObjectRef) -> Vec<JournalLine> {
        AdminRegistry::journal(self, object)
    }

    fn subscribe(&self) -> watch::Receiver<u64> {
        AdminRegistry::subscribe(self)
    }
}

fn put_cache<K: Kind>(objects: &mut ObjectMap, kind: &str, cache: Option<Cache<K>>) {
    let Some(cache) = cache else { return };
    let json = |object: &std::sync::Arc<K>| serde_json::to_value(&**object).ok();
    let all: Vec<Value> = cache.list().iter().filter_map(json).collect();
    objects.insert(kind, all);
}

/// The data sources of the page. Clones share them.
#[derive(Clone)]
pub struct ConsoleState(Arc<Inner>);

struct Inner {
    sources: Box<dyn DataSources>,
    clock: Clock,
    readers: Arc<Semaphore>,
    shutdown: CancellationToken,
}

impl std::fmt::Debug for ConsoleState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConsoleState")
    }
}

impl ConsoleState {
    /// A console of these sources. `ends` closes live pages: a server that stops would wait for them.
    #[must_use]
    pub fn new(sources: impl DataSources, clock: Clock, ends: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            sources: Box::new(sources),
            clock,
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            shutdown: ends,
        }))
    }

    /// The overview, now.
    #[must_use]
    pub fn status(&self) -> Overview {
        let sources = &*self.0.sources;
        Overview::from_inputs(OverviewInputs {
            objects: &sources.objects(),
            engines: &sources.engines(),
            journal: &|object| sources.journal(object),
            at: self.0.clock.now(),
        })
    }

    /// One object, now. `None` if it does not exist or its kind is not watched here.
    fn story(&self, subject: &TraceSubject) -> Option<ObjectStory> {
        let sources = &*self.0.sources;
        let objects = sources.objects();
        let kind = find_resource(&subject.kind)?;
        let object = objects.get(&kind, &subject.name)?;
        let lines = sources.journal(&subject.name.object_ref(&kind));
        Some(ObjectStory::from_object(object, &objects, &lines, self.0.clock.now()))
    }
}

/// The object that a page shows, as its path names it.
#[derive(Clone, Debug)]
struct TraceSubject {
    kind: String,
    name: ObjectName,
}

impl TraceSubject {
    /// Reads `KIND/NAME` or `KIND/NAMESPACE/NAME`.
    fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace.to_owned()), name),
            _ => return None,
        };
        Some(Self {
            kind: kind.to_owned(),
            name: ObjectName {
                namespace,
                name: name.to_owned(),
            },
        })
    }
}

/// The page and its assets, to be merged with the admin endpoints.
pub fn router(console: ConsoleState) -> Router {
    Router::new()
        .route("/", get(serve_overview))
        .route("/console.css", get(serve_style))
        .route("/console.js", get(serve_script))
        .route("/icon.svg", get(serve_icon))
        .route("/status.json", get(serve_status))
        .route("/events", get(events::serve_events))
        .route("/trace/{*object}", get(serve_trace))
        .with_state(console)
}

async fn serve_overview(State(console): State<ConsoleState>) -> Response {
    let main = page::render_overview(&console.status());
    let page = main.and_then(|main| page::render_document("Aplomb", main, "/events"));
    render_response("text/html; charset=utf-8", page)
}

async fn serve_status(State(console): State<ConsoleState>) -> Response {
    (response_headers("application/json"), Json(console.status())).into_response()
}

async fn serve_style() -> Response {
    render_response("text/css; charset=utf-8", Ok(page::STYLE.to_owned()))
}

async fn serve_script() -> Response {
    let kind = "text/javascript; charset=utf-8";
    render_response(kind, Ok(page::SCRIPT.to_owned()))
}

async fn serve_icon() -> Response {
    render_response("image/svg+xml", Ok(page::ICON.to_owned()))
}

/// One object, as a page and as JSON. Uses only what this process watches; `aplomb trace` also reads from the API server.
async fn serve_trace(State(console): State<ConsoleState>, Path(path): Path<String>) -> Response {
    let (path, json) = match path.strip_suffix(".json") {
        Some(bare) => (bare, true),
        None => (&*path, false),
    };
    let subject = TraceSubject::parse(path);
    let Some(story) = subject.as_ref().and_then(|it| console.story(it)) else {
        let nothing = format!("{path} does not exist or is not watched by this process\n");
        let kind = response_headers("text/plain; charset=utf-8");
        return (StatusCode::NOT_FOUND, kind, nothing).into_response();
    };
    if json {
        return (response_headers("application/json"), Json(story.trace)).into_response();
    }
    let tree = &story.trace.tree;
    let title = format!("{} {}", tree.kind, tree.name);
    let main = page::render_story(&story);
    let page = main.and_then(|main| page::render_document(&title, main, &format!("/events?of={path}")));
    render_response("text/html; charset=utf-8", page)
}

fn render_response(kind: &'static str, body: Result<String, page::RenderError>) -> Response {
    match body {
        Ok(body) => (response_headers(kind), body).into_response(),
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            (status, response_headers("text/plain"), format!("{error}\n")).into_response()
        }
    }
}

fn response_headers(kind: &'static str) -> HeaderMap {
    let fixed: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, CSP_VALUE),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    let fixed = fixed.map(|(name, value)| (name, HeaderValue::from_static(value)));
    HeaderMap::from_iter(fixed)
}

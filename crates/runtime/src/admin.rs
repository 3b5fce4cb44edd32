//! The admin endpoints of a process: `/metrics`, `/livez`, `/readyz`,
//! `/debug/state.json` and `/debug/journal/{kind}/{namespace}/{name}`.
//!
//! Read-only. They show names, times and counts, never the contents of an object.

mod health;
mod state;

use std::any::Any;
use std::sync::Arc;
use std::{fmt, io};

use axum::extract::{Path, State as Shared};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::state::{
    ControllerState, DebugState, KindCounters, QueueLaneState, RunState, TaskState, TriggerRecord, WatchHealth,
};
use crate::cache::Cache;
use crate::controller::Kind;
use crate::journal::{Journal, JournalLine};
use crate::key::{ObjectKey, ObjectRef};
use crate::telemetry;
use crate::telemetry::{MetricsSource, Telemetry};

/// Whether a program is ready for traffic, in addition to the runtime's own checks of its inputs.
#[derive(Clone)]
pub struct Readiness(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl Readiness {
    /// `/readyz` fails while `trouble` returns a reason.
    #[must_use]
    pub fn new(trouble: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(trouble))
    }

    pub(crate) fn failure(&self) -> Option<String> {
        (self.0)()
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new(|| None)
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readiness")
    }
}

/// A process whose state can be inspected.
pub trait EngineInspector: Send + Sync + 'static {
    /// Its state now. Must not block on a lock that running work may hold.
    fn state(&self) -> DebugState;

    /// Updates metrics that grow without any event; called before metrics are read.
    fn update_metrics(&self) {}

    /// Its journal.
    fn journal(&self) -> Option<&Journal> {
        None
    }
}

/// The endpoints.
fn router(board: AdminRegistry) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/debug/state.json", get(debug_state))
        .route("/debug/journal/{kind}/{name}", get(cluster_scoped_journal))
        .route("/debug/journal/{kind}/{namespace}/{name}", get(namespaced_journal))
        .with_state(board)
}

/// Serves the endpoints until `shutdown`.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}

async fn metrics(Shared(board): Shared<AdminRegistry>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], board.metrics()).into_response()
}

async fn livez(Shared(board): Shared<AdminRegistry>, uri: Uri) -> Response {
    health_response("livez", &health::liveness_checks(&board.state()), &uri)
}

async fn readyz(Shared(board): Shared<AdminRegistry>, uri: Uri) -> Response {
    health_response("readyz", &health::readiness_checks(&board.state()), &uri)
}

fn health_response(endpoint: &str, checks: &[health::HealthCheck], uri: &Uri) -> Response {
    let mut options = uri.query().unwrap_or_default().split('&');
    let verbose = options.any(|option| option == "verbose" || option.starts_with("verbose="));
    let (passed, text) = health::render_checks(endpoint, checks, verbose);
    let status = if passed {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    (status, text).into_response()
}

async fn debug_state(Shared(board): Shared<AdminRegistry>) -> Json<DebugState> {
    Json(board.state())
}

async fn cluster_scoped_journal(
    Shared(board): Shared<AdminRegistry>,
    Path((kind, name)): Path<(String, String)>,
) -> Response {
    read_journal(&board, &kind, ObjectKey::new(None, &name))
}

async fn namespaced_journal(
    Shared(board): Shared<AdminRegistry>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Response {
    read_journal(&board, &kind, ObjectKey::new(Some(&namespace), &name))
}

fn read_journal(board: &AdminRegistry, kind: &str, key: ObjectKey) -> Response {
    let object = ObjectRef { kind: kind.into(), key };
    let lines = board.journal(&object);
    if lines.is_empty() {
        let nothing = format!("no journal entries for {object}\n");
        return (StatusCode::NOT_FOUND, nothing).into_response();
    }
    Json(lines).into_response()
}

/// The engines of one process, for inspection. Clones share the registry.
#[derive(Clone)]
pub struct AdminRegistry(Arc<Inner>);

struct Inner {
    entries: Mutex<Vec<Arc<EngineEntry>>>,
    changed: watch::Sender<u64>,
}

/// The registered data of one engine.
pub struct EngineEntry {
    /// The name of the engine.
    pub name: String,
    /// Its state.
    pub inspector: Arc<dyn EngineInspector>,
    /// Its metrics. Engines of one process must share it; otherwise `/metrics` repeats family names.
    pub telemetry: Telemetry,
    /// Metrics of its own.
    pub metrics: Vec<MetricsSource>,
    pub(crate) caches: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Removes an engine from the registry when dropped.
#[must_use = "the engine is removed from the registry when this is dropped"]
#[derive(Debug)]
pub struct EngineRegistration {
    board: AdminRegistry,
    entry: Arc<EngineEntry>,
}

impl Default for AdminRegistry {
    fn default() -> Self {
        Self(Arc::new(Inner {
            entries: Mutex::default(),
            changed: watch::Sender::new(0),
        }))
    }
}

impl AdminRegistry {
    /// Adds an engine.
    pub fn register(&self, entry: EngineEntry) -> EngineRegistration {
        let entry = Arc::new(entry);
        self.0.entries.lock().push(entry.clone());
        self.notify_changed();
        EngineRegistration {
            board: self.clone(),
            entry,
        }
    }

    /// The state of each engine, by its name.
    #[must_use]
    pub fn engines(&self) -> Vec<(String, DebugState)> {
        let entries = self.entries();
        let each = entries.iter();
        each.map(|entry| (entry.name.clone(), entry.inspector.state()))
            .collect()
    }

    /// The states of all engines as one.
    #[must_use]
    pub fn state(&self) -> DebugState {
        let states = self.engines().into_iter().map(|(_, state)| state);
        states.fold(DebugState::default(), DebugState::merge)
    }

    /// The objects of a controller's own kind, if one of the engines has such a controller.
    #[must_use]
    pub fn cache<K: Kind>(&self) -> Option<Cache<K>> {
        let entries = self.entries();
        let mut caches = entries.iter().flat_map(|entry| &entry.caches);
        caches.find_map(|cache| cache.downcast_ref::<Cache<K>>().cloned())
    }

    /// The journal of `object` over all engines, oldest first.
    #[must_use]
    pub fn journal(&self, object: &ObjectRef) -> Vec<JournalLine> {
        let entries = self.entries();
        let journals = entries.iter().filter_map(|entry| entry.inspector.journal());
        let mut lines: Vec<JournalLine> = journals.flat_map(|journal| journal.read(object)).collect();
        lines.sort_by_key(|line| line.at);
        lines
    }

    /// Changes when an object of a controller's own kind changes, and when an engine is added or removed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Every metric of the process as OpenMetrics text.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        let mut counted: Vec<Telemetry> = Vec::new();
        for entry in self.entries() {
            entry.inspector.update_metrics();
            if !counted.iter().any(|known| known.is_same(&entry.telemetry)) {
                entry.telemetry.register(&mut registry);
                counted.push(entry.telemetry.clone());
            }
            entry.metrics.iter().for_each(|metrics| metrics.register(&mut registry));
        }
        telemetry::encoded(&registry)
    }

    /// The endpoints for all engines.
    pub fn router(&self) -> Router {
        router(self.clone())
    }

    /// Signals a change to followers.
    pub(crate) fn notify_changed(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }

    fn entries(&self) -> Vec<Arc<EngineEntry>> {
        self.0.entries.lock().clone()
    }
}

impl EngineEntry {
    /// An entry called `name` that counts in `telemetry`.
    #[must_use]
    pub fn new(name: &str, process: Arc<dyn EngineInspector>, telemetry: Telemetry) -> Self {
        Self {
            name: name.to_owned(),
            inspector: process,
            telemetry,
            metrics: Vec::new(),
            caches: Vec::new(),
        }
    }
}

impl Drop for EngineRegistration {
    fn drop(&mut self) {
        let entry = &self.entry;
        let stays = |other: &Arc<EngineEntry>| !Arc::ptr_eq(other, entry);
        self.board.0.entries.lock().retain(stays);
        self.board.notify_changed();
    }
}

impl fmt::Debug for AdminRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

impl fmt::Debug for EngineEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.name).finish()
    }
}

//! The admin endpoints of a process: `/metrics`, `/livez`, `/readyz`,
//! `/debug/state.json` and `/debug/journal/{kind}/{namespace}/{name}`.
//!
//! Read-only. They show names, times and counts, never the contents of an object.

mod board;
mod health;
mod state;

use std::sync::Arc;
use std::{fmt, io};

use axum::extract::{Path, State as Shared};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::board::{AdminRegistry, EngineEntry, EngineRegistration};
pub use self::state::{
    ControllerState, DebugState, KindCounters, QueueLaneState, RunState, TaskState, TriggerRecord, WatchHealth,
};
use crate::journal::Journal;
use crate::key::{ObjectKey, ObjectRef};

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

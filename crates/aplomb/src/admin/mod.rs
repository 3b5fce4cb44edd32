//! What a person or a kubelet asks the process over HTTP: `/metrics`, `/livez`, `/readyz`,
//! `/debug/state.json` and `/debug/journal/{kind}/{namespace}/{name}`.
//!
//! Reads only. It shows names, times and counts, never what an object contains.

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
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::state::{Controller, Lane, Run, State, Task, Trigger, Watch};
use crate::journal::Journal;
use crate::key::{Key, ObjectId};
use crate::telemetry::{self, Telemetry};

/// Whether a program wants traffic, beside what the runtime knows of its inputs.
#[derive(Clone)]
pub struct Readiness(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl Readiness {
    /// `/readyz` fails while `trouble` says why.
    #[must_use]
    pub fn new(trouble: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(trouble))
    }

    pub(crate) fn trouble(&self) -> Option<String> {
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

/// A process that can say what it is doing.
pub trait Introspect: Send + Sync + 'static {
    /// Its state now. Must not wait for anything that work in progress may hold.
    fn state(&self) -> State;

    /// Moves the metrics that grow while nothing occurs; called before metrics are read.
    fn measure(&self) {}

    /// What it remembers of each object.
    fn journal(&self) -> Option<&Journal> {
        None
    }
}

/// What the endpoints answer from.
struct Admin {
    registry: Registry,
    process: Arc<dyn Introspect>,
}

/// The endpoints. `registry` may have metrics of the program; those of the runtime are added.
pub fn router(
    mut registry: Registry,
    telemetry: &Telemetry,
    process: Arc<dyn Introspect>,
) -> Router {
    telemetry.register(&mut registry);
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/debug/state.json", get(debug_state))
        .route(
            "/debug/journal/{kind}/{name}",
            get(journal_of_cluster_scoped),
        )
        .route(
            "/debug/journal/{kind}/{namespace}/{name}",
            get(journal_of_namespaced),
        )
        .with_state(Arc::new(Admin { registry, process }))
}

/// Serves the endpoints until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}

async fn metrics(Shared(admin): Shared<Arc<Admin>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    admin.process.measure();
    let text = telemetry::encoded(&admin.registry);
    ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}

async fn livez(Shared(admin): Shared<Arc<Admin>>, uri: Uri) -> Response {
    answer("livez", &health::live(&admin.process.state()), &uri)
}

async fn readyz(Shared(admin): Shared<Arc<Admin>>, uri: Uri) -> Response {
    answer("readyz", &health::ready(&admin.process.state()), &uri)
}

fn answer(endpoint: &str, checks: &[health::Check], uri: &Uri) -> Response {
    let mut options = uri.query().unwrap_or_default().split('&');
    let verbose = options.any(|option| option == "verbose" || option.starts_with("verbose="));
    let (passed, text) = health::report(endpoint, checks, verbose);
    let status = if passed {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    (status, text).into_response()
}

async fn debug_state(Shared(admin): Shared<Arc<Admin>>) -> Json<State> {
    Json(admin.process.state())
}

async fn journal_of_cluster_scoped(
    Shared(admin): Shared<Arc<Admin>>,
    Path((kind, name)): Path<(String, String)>,
) -> Response {
    read_journal(&admin, &kind, Key::new(None, &name))
}

async fn journal_of_namespaced(
    Shared(admin): Shared<Arc<Admin>>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Response {
    read_journal(&admin, &kind, Key::new(Some(&namespace), &name))
}

fn read_journal(admin: &Admin, kind: &str, key: Key) -> Response {
    let object = ObjectId {
        kind: kind.into(),
        key,
    };
    let journal = admin.process.journal();
    match journal.map(|journal| journal.read(&object)) {
        Some(lines) if !lines.is_empty() => Json(lines).into_response(),
        _ => {
            let nothing = format!("nothing is remembered of {object}\n");
            (StatusCode::NOT_FOUND, nothing).into_response()
        }
    }
}

//! What a person or a kubelet asks the process over HTTP: `/metrics`, `/livez`, `/readyz` and
//! `/debug/state.json`.
//!
//! Reads only. It shows names, times and counts, never what an object contains.

mod health;
mod state;

use std::io;
use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::state::{Controller, Lane, Run, State, Task, Trigger, Watch};
use crate::telemetry::{self, Telemetry};

/// A process that can say what it is doing.
pub trait Introspect: Send + Sync + 'static {
    /// Its state now. Must not wait for anything that work in progress may hold.
    fn state(&self) -> State;

    /// Moves the metrics that grow while nothing occurs; called before metrics are read.
    fn measure(&self) {}
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

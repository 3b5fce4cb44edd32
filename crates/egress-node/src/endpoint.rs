//! `/livez` and `/readyz` for the kubelet. Ready means that addresses, rules and routes are present.

use std::net::SocketAddr;

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Error;
use crate::keeper::NodeReadiness;

/// Serves until the task is dropped.
pub(crate) async fn serve(
    listen: SocketAddr,
    standing: watch::Receiver<NodeReadiness>,
    tasks: &Tasks,
) -> Result<TaskHandle<()>, Error> {
    let refused = |error| Error::Listen(listen, error);
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    tracing::info!(%address, "Serving /livez and /readyz");
    let router = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(standing);
    Ok(tasks.spawn_forever("endpoint", async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "Failed to serve /livez and /readyz");
        }
    }))
}

async fn readyz(State(standing): State<watch::Receiver<NodeReadiness>>) -> (StatusCode, String) {
    match &*standing.borrow() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

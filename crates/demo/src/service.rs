//! A small local service, like one on a laptop: it responds to every request with its name, and can be
//! stopped and restarted at the same address.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use axum::Router;
use tokio::net::TcpListener;

/// The service. Stops when it is dropped.
#[derive(Debug)]
pub(crate) struct LocalService {
    answer: String,
    address: SocketAddr,
    tasks: Tasks,
    serving: Arc<Mutex<Option<TaskHandle<()>>>>,
}

impl LocalService {
    /// Starts one on a free port that responds with `answer`.
    pub(crate) async fn start(answer: &str, tasks: &Tasks) -> Result<Self> {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let service = Self {
            answer: answer.to_owned(),
            address: listener.local_addr()?,
            tasks: tasks.clone(),
            serving: Arc::default(),
        };
        service.serve(listener);
        Ok(service)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn body(&self) -> &str {
        &self.answer
    }

    /// Stops it: from now on connections are refused.
    pub(crate) fn stop(&self) {
        drop(self.lock_task().take());
    }

    /// Restarts it at the same address.
    pub(crate) async fn restart(&self) -> Result<()> {
        let listener = listen(self.address).await?;
        self.serve(listener);
        Ok(())
    }

    fn serve(&self, listener: TcpListener) {
        let answer = self.answer.clone();
        let router = Router::new().fallback(async move || answer);
        let task = self.tasks.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "Local service stopped");
            }
        });
        *self.lock_task() = Some(task);
    }

    fn lock_task(&self) -> std::sync::MutexGuard<'_, Option<TaskHandle<()>>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("listen on {address}"))
}

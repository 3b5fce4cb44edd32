//! Takes keys from the work queue and runs them, as many at once as there are workers.
//!
//! A completion costs the same regardless of the number of runs in flight. While this replica does not lead,
//! nothing is taken: the caches stay warm and the queue stays full.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::timeout;

use super::WorkerParams;
use super::controller::Kind;
use super::desk::WorkItem;
use super::run::Reconciler;
use crate::key::ObjectKey;
use crate::queue::RunTicket;
use crate::tasks::{TaskHandle, Tasks};

/// The limit of concurrent runs, including slow ones, as a multiple of the number of workers.
const LENT: usize = 4;

/// Runs a controller's keys until shutdown, then waits for runs in flight, but no longer
/// than the drain time.
pub(crate) async fn pump<K: Kind>(crew: Arc<Reconciler<K>>, mut terms: WorkerParams) {
    let workers = crew.desk.options.workers;
    let mut quick = FuturesUnordered::new();
    let mut slow = FuturesUnordered::new();
    loop {
        let leading = *terms.leading.borrow_and_update();
        let full = |quick: usize, slow: usize| quick >= workers || quick + slow >= workers * LENT;
        while leading && !full(quick.len(), slow.len()) {
            let Some(work) = crew.desk.take() else { break };
            quick.push(Run::start(&crew, work, &terms.tasks).quickly());
        }
        let free = leading && !full(quick.len(), slow.len());
        tokio::select! { biased;
            () = terms.stop.cancelled() => break,
            Some(run) = quick.next() => slow.extend(run.map(Run::end)),
            Some(()) = slow.next() => {}
            Ok(()) = terms.leading.changed() => {}
            () = crew.desk.changed(), if free => {}
        }
    }
    // Runs in flight may finish, so that no write is cut short. Hanging runs are not waited for.
    let drain = async {
        while let Some(run) = quick.next().await {
            slow.extend(run.map(Run::end));
        }
        while slow.next().await.is_some() {}
    };
    if timeout(terms.drain, drain).await.is_err() {
        tracing::warn!(controller = crew.name, "Shutdown deadline passed with reconciles still running");
    }
}

/// A run in progress.
struct Run<K: Kind> {
    crew: Arc<Reconciler<K>>,
    ticket: RunTicket,
    key: ObjectKey,
    task: TaskHandle<()>,
}

impl<K: Kind> Run<K> {
    fn start(crew: &Arc<Reconciler<K>>, work: WorkItem, tasks: &Tasks) -> Self {
        Self {
            crew: crew.clone(),
            ticket: work.dispatch.ticket,
            key: work.dispatch.key.clone(),
            task: tasks.start(crew.clone().run(work)),
        }
    }

    /// Waits for it to end, and returns it if that takes long.
    async fn quickly(mut self) -> Option<Self> {
        let Some(limit) = self.crew.desk.options.lend_after else {
            self.end().await;
            return None;
        };
        match timeout(limit, self.task.done()).await {
            Ok(ended) => {
                self.ended(ended);
                None
            }
            Err(_) => Some(self),
        }
    }

    async fn end(mut self) {
        let ended = self.task.done().await;
        self.ended(ended);
    }

    fn ended(&self, ended: Option<()>) {
        if ended.is_none() {
            // A panic outside of the reconcile, which has not been reported to the queue.
            self.crew.desk.abandon(self.ticket, &self.key);
        }
    }
}

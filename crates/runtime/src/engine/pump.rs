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
const MAX_WORKER_FACTOR: usize = 4;

/// Runs a controller's keys until shutdown, then waits for runs in flight, but no longer
/// than the drain time.
pub(crate) async fn run_workers<K: Kind>(crew: Arc<Reconciler<K>>, mut terms: WorkerParams) {
    let workers = crew.queue.options.workers;
    let mut quick = FuturesUnordered::new();
    let mut slow = FuturesUnordered::new();
    loop {
        let leading = *terms.leading.borrow_and_update();
        let full = |quick: usize, slow: usize| quick >= workers || quick + slow >= workers * MAX_WORKER_FACTOR;
        while leading && !full(quick.len(), slow.len()) {
            let Some(work) = crew.queue.pop_key() else {
                break;
            };
            quick.push(ActiveRun::start(&crew, work, &terms.tasks).wait_briefly());
        }
        let free = leading && !full(quick.len(), slow.len());
        tokio::select! { biased;
            () = terms.stop.cancelled() => break,
            Some(run) = quick.next() => slow.extend(run.map(ActiveRun::wait)),
            Some(()) = slow.next() => {}
            Ok(()) = terms.leading.changed() => {}
            () = crew.queue.wait_for_work(), if free => {}
        }
    }
    // Runs in flight may finish, so that no write is cut short. Hanging runs are not waited for.
    let drain = async {
        while let Some(run) = quick.next().await {
            slow.extend(run.map(ActiveRun::wait));
        }
        while slow.next().await.is_some() {}
    };
    if timeout(terms.drain, drain).await.is_err() {
        tracing::warn!(
            controller = crew.name,
            "Shutdown deadline passed with reconciles still running"
        );
    }
}

/// A run in progress.
struct ActiveRun<K: Kind> {
    reconciler: Arc<Reconciler<K>>,
    ticket: RunTicket,
    key: ObjectKey,
    task: TaskHandle<()>,
}

impl<K: Kind> ActiveRun<K> {
    fn start(crew: &Arc<Reconciler<K>>, work: WorkItem, tasks: &Tasks) -> Self {
        Self {
            reconciler: crew.clone(),
            ticket: work.dispatch.ticket,
            key: work.dispatch.key.clone(),
            task: tasks.spawn(crew.clone().run(work)),
        }
    }

    /// Waits for it to end, and returns it if that takes long.
    async fn wait_briefly(mut self) -> Option<Self> {
        let Some(limit) = self.reconciler.queue.options.lend_after else {
            self.wait().await;
            return None;
        };
        match timeout(limit, self.task.wait()).await {
            Ok(ended) => {
                self.handle_end(ended);
                None
            }
            Err(_) => Some(self),
        }
    }

    async fn wait(mut self) {
        let ended = self.task.wait().await;
        self.handle_end(ended);
    }

    fn handle_end(&self, ended: Option<()>) {
        if ended.is_none() {
            // A panic outside of the reconcile, which has not been reported to the queue.
            self.reconciler.queue.fail_panicked(self.ticket, &self.key);
        }
    }
}

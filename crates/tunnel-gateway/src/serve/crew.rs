//! Tasks for connections, streams and upgrades. They are aborted with their owner, which can wait until all
//! have ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use tokio::sync::Notify;

/// A set of running tasks. Clones share it; tasks are aborted with the last clone.
#[derive(Clone)]
pub(crate) struct ConnectionTasks(Arc<Shared>);

struct Shared {
    tasks: Tasks,
    members: Mutex<Members>,
    left: Notify,
}

#[derive(Default)]
struct Members {
    next: u64,
    at_work: BTreeMap<u64, TaskHandle<()>>,
}

impl ConnectionTasks {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self(Arc::new(Shared {
            tasks,
            members: Mutex::default(),
            left: Notify::new(),
        }))
    }

    /// Starts a task.
    pub(crate) fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Locked while starting, so that a task that ends at once finds its entry.
        let mut members = self.0.members();
        let id = members.next;
        members.next += 1;
        let shared = Arc::downgrade(&self.0);
        let leaves = Leaves { shared, id };
        let task = self.0.tasks.start(async move {
            let _leaves = leaves;
            work.await;
        });
        members.at_work.insert(id, task);
    }

    /// Waits until no task is running.
    pub(crate) async fn empty(&self) {
        loop {
            let left = self.0.left.notified();
            if self.0.members().at_work.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// Aborts all tasks.
    pub(crate) fn dismiss(&self) {
        let at_work = std::mem::take(&mut self.0.members().at_work);
        drop(at_work);
        self.0.left.notify_waiters();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.members().at_work.len()
    }
}

impl Shared {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for ConnectionTasks {
    fn execute(&self, work: F) {
        self.start(work);
    }
}

impl fmt::Debug for ConnectionTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crew({})", self.len())
    }
}

/// Removes a task from the set, however it ended.
struct Leaves {
    shared: Weak<Shared>,
    id: u64,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let task = shared.members().at_work.remove(&self.id);
        drop(task);
        shared.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_empty_when_the_last_has_left() {
        let crew = ConnectionTasks::new(Tasks::on_runtime());
        crew.empty().await;
        let (send, receive) = oneshot::channel::<()>();
        crew.start(async {
            // A closed channel also means that it is over.
            let _ = receive.await;
        });
        crew.start(async {});
        assert!(crew.len() >= 1);
        drop(send);
        crew.empty().await;
        assert_eq!(crew.len(), 0);
    }

    #[tokio::test]
    async fn nobody_works_on_after_the_owner_has_gone() {
        let crew = ConnectionTasks::new(Tasks::on_runtime());
        let alive = Arc::new(());
        let held = alive.clone();
        crew.start(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(crew);
        while Arc::strong_count(&alive) > 1 {
            tokio::task::yield_now().await;
        }
    }
}

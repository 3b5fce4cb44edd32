//! Tasks for connections, streams and upgrades. They are aborted with their owner, which can wait until all have ended.

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
    tasks_by_id: Mutex<TaskSet>,
    task_ended: Notify,
}

#[derive(Default)]
struct TaskSet {
    next: u64,
    tasks: BTreeMap<u64, TaskHandle<()>>,
}

impl ConnectionTasks {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self(Arc::new(Shared {
            tasks,
            tasks_by_id: Mutex::default(),
            task_ended: Notify::new(),
        }))
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Locked while starting, so that a task that ends at once finds its entry.
        let mut members = self.0.lock_tasks();
        let id = members.next;
        members.next += 1;
        let shared = Arc::downgrade(&self.0);
        let leaves = RemoveOnDrop { shared, id };
        let task = self.0.tasks.spawn(async move {
            let _leaves = leaves;
            work.await;
        });
        members.tasks.insert(id, task);
    }

    /// Waits until no task is running.
    pub(crate) async fn wait_empty(&self) {
        loop {
            let left = self.0.task_ended.notified();
            if self.0.lock_tasks().tasks.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// Aborts all tasks.
    pub(crate) fn abort_all(&self) {
        let at_work = std::mem::take(&mut self.0.lock_tasks().tasks);
        drop(at_work);
        self.0.task_ended.notify_waiters();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock_tasks().tasks.len()
    }
}

impl Shared {
    fn lock_tasks(&self) -> MutexGuard<'_, TaskSet> {
        self.tasks_by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for ConnectionTasks {
    fn execute(&self, work: F) {
        self.spawn(work);
    }
}

impl fmt::Debug for ConnectionTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crew({})", self.len())
    }
}

/// Removes a task from the set, however it ended.
struct RemoveOnDrop {
    shared: Weak<Shared>,
    id: u64,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let task = shared.lock_tasks().tasks.remove(&self.id);
        drop(task);
        shared.task_ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_empty_when_the_last_task_ended() {
        let crew = ConnectionTasks::new(Tasks::on_runtime());
        crew.wait_empty().await;
        let (send, receive) = oneshot::channel::<()>();
        crew.spawn(async {
            // A closed channel also means that it is over.
            let _ = receive.await;
        });
        crew.spawn(async {});
        assert!(crew.len() >= 1);
        drop(send);
        crew.wait_empty().await;
        assert_eq!(crew.len(), 0);
    }

    #[tokio::test]
    async fn tasks_end_with_the_last_owner() {
        let crew = ConnectionTasks::new(Tasks::on_runtime());
        let alive = Arc::new(());
        let held = alive.clone();
        crew.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(crew);
        while Arc::strong_count(&alive) > 1 {
            tokio::task::yield_now().await;
        }
    }
}

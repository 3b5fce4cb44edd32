//! The tasks of an engine: each has a name and an owner, ends with its owner, and is reported when it fails.
//!
//! Where tasks run is a parameter: on the runtime in production, under a simulated process in a test
//! that freezes or crashes it. Nothing in this crate may spawn in any other way.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{AbortHandle, BoxFuture, abortable};
use parking_lot::Mutex;
use tokio::sync::oneshot;

type Spawn = dyn Fn(BoxFuture<'static, ()>) + Send + Sync;

/// Starts tasks and records those that ended without being stopped. Clones share both.
#[derive(Clone)]
pub struct Tasks {
    spawn: Arc<Spawn>,
    failed: Arc<Mutex<Vec<String>>>,
}

impl Tasks {
    /// Tasks on the current tokio runtime.
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        reason = "the only place that spawns; the returned handle owns the task"
    )]
    pub fn on_runtime() -> Self {
        Self::with_spawner(|task| drop(tokio::spawn(task)))
    }

    /// Tasks that `spawn` starts.
    #[must_use]
    pub fn with_spawner(spawn: impl Fn(BoxFuture<'static, ()>) + Send + Sync + 'static) -> Self {
        Self {
            spawn: Arc::new(spawn),
            failed: Arc::default(),
        }
    }

    /// Starts `work`; dropping the handle ends it.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> TaskHandle<T> {
        let (send, done) = oneshot::channel();
        let (work, abort) = abortable(AssertUnwindSafe(work).catch_unwind());
        (self.spawn)(Box::pin(async move {
            if let Ok(Ok(value)) = work.await {
                // The receiver may have been dropped.
                drop(send.send(value));
            }
        }));
        TaskHandle { abort, done }
    }

    /// Starts `work`, which must never end: its end is a failed health check.
    pub fn spawn_forever(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> TaskHandle<()> {
        let (this, name) = (self.clone(), name.to_owned());
        self.spawn(async move {
            match AssertUnwindSafe(work).catch_unwind().await {
                Ok(()) => this.record_failure(&name, "ended"),
                Err(_) => this.record_failure(&name, "panicked"),
            }
        })
    }

    /// Starts `work`, which may end: only a panic is a failed health check.
    pub fn spawn_critical(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> TaskHandle<()> {
        let (this, name) = (self.clone(), name.to_owned());
        self.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                this.record_failure(&name, "panicked");
            }
        })
    }

    fn record_failure(&self, name: &str, how: &str) {
        tracing::error!(task = name, "Task {how}");
        let line = format!("{name} {how}");
        self.failed.lock().push(line);
    }

    /// The tasks that ended although they must not.
    #[must_use]
    pub fn failed_tasks(&self) -> Vec<String> {
        self.failed.lock().clone()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("dead", &self.failed_tasks())
            .finish_non_exhaustive()
    }
}

/// A running task. Ends when dropped.
#[derive(Debug)]
pub struct TaskHandle<T> {
    abort: AbortHandle,
    done: oneshot::Receiver<T>,
}

impl<T> TaskHandle<T> {
    /// Waits for it to end; `None` if it panicked or was aborted.
    pub async fn join(mut self) -> Option<T> {
        self.wait().await
    }

    /// The same by reference. Cancel-safe; must not be called again after it has returned.
    pub async fn wait(&mut self) -> Option<T> {
        (&mut self.done).await.ok()
    }
}

impl<T> Drop for TaskHandle<T> {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_ends_with_its_handle() {
        let alive = Arc::new(());
        let held = alive.clone();
        let task = Tasks::on_runtime().spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(task);
        while Arc::strong_count(&alive) > 1 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn panicked_task_is_reported() {
        let tasks = Tasks::on_runtime();
        let task = tasks.spawn_forever("watch of Pod", async { panic!("a defect") });
        task.join().await;
        assert_eq!(tasks.failed_tasks(), ["watch of Pod panicked"]);
    }

    #[tokio::test]
    async fn critical_task_may_end_but_not_panic() {
        let tasks = Tasks::on_runtime();
        tasks.spawn_critical("lease", async {}).join().await;
        assert!(tasks.failed_tasks().is_empty());
        let task = tasks.spawn_critical("lease", async { panic!("a defect") });
        task.join().await;
        assert_eq!(tasks.failed_tasks(), ["lease panicked"]);
    }
}

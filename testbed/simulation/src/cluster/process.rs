//! Components under test: started, crashed at a chosen effect, frozen, skewed, started again.
//!
//! Several replicas of an operator are several components. A crash drops the component's tasks
//! and severs its client; what it has stored stays; the next life is built anew by its `main`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aplomb_apimachinery::clock::Clock;
use aplomb_apiserver::call::User;
use jiff::{SignedDuration, Timestamp};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::crash_gate::{Crash, CrashGate, ProcessLife};
use super::freeze::{Freezable, Freezer};
use super::{Cluster, Connection, master, with_retries};
use crate::panics;

/// How long a component stays down after a crash.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// A component of a cluster. Dropping it stops it for good.
#[derive(Debug)]
pub struct Component {
    supervisor: JoinHandle<()>,
    gate: CrashGate,
    freezer: Freezer,
    skew: Arc<AtomicI64>,
    life: tokio::sync::watch::Receiver<ProcessLife>,
}

/// One life of a component, as its `main` sees it.
#[derive(Clone, Debug)]
pub struct Process {
    cluster: Cluster,
    name: Arc<str>,
    life: ProcessLife,
    freezer: Freezer,
    clock: ReplicaClock,
    tasks: tokio::sync::mpsc::UnboundedSender<Task>,
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The wall clock of one replica, which may go wrong.
#[derive(Clone, Debug)]
pub struct ReplicaClock {
    clock: Clock,
    skew: Arc<AtomicI64>,
}

impl ReplicaClock {
    /// What this replica believes the time is.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let skew = SignedDuration::from_millis(self.skew.load(Ordering::Relaxed));
        let now = self.clock.now();
        now.checked_add(skew).unwrap_or(now)
    }
}

impl Process {
    /// The component's name, which is its identity at the API server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client of the API server that dies with this life. Every write is an effect.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(&master(&self.name))
    }

    /// The same without the retries that kube adds.
    #[must_use]
    pub fn plain_client(&self) -> kube::Client {
        kube::Client::new(self.connection(&master(&self.name)), "default")
    }

    /// The same with the rights of a user.
    #[must_use]
    pub fn client_as(&self, user: &User) -> kube::Client {
        with_retries(self.connection(user))
    }

    fn connection(&self, user: &User) -> Connection {
        self.cluster.connect(&self.name, user, Some(self.life.clone()))
    }

    /// This replica's clock.
    #[must_use]
    pub fn clock(&self) -> &ReplicaClock {
        &self.clock
    }

    /// Does something to the world outside the API server: a call to a cloud, a packet. Counted
    /// as an effect, so a crash can be placed at it.
    pub async fn effect<T>(&self, what: &str, effect: impl Future<Output = T>) -> T {
        self.cluster.activity().fetch_add(1, Ordering::Relaxed);
        self.life.effect(what, effect).await
    }

    /// Runs a task that dies and freezes with this life, unlike one spawned on the runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // A closed channel means this life is over, and with it the task.
        drop(self.tasks.send(Box::pin(task)));
    }
}

impl Component {
    pub(super) fn start<M, F>(cluster: &Cluster, name: &str, main: M) -> Self
    where
        M: Fn(Process) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let gate = CrashGate::new(name, cluster.trace());
        let freezer = Freezer::default();
        let skew = Arc::new(AtomicI64::new(0));
        let clock = ReplicaClock {
            clock: cluster.server().clock().clone(),
            skew: skew.clone(),
        };
        let (lives, life) = tokio::sync::watch::channel(gate.live());
        let (tasks, _) = tokio::sync::mpsc::unbounded_channel();
        let process = Process {
            cluster: cluster.clone(),
            name: name.into(),
            life: life.borrow().clone(),
            freezer: freezer.clone(),
            clock,
            tasks,
        };
        let supervisor = tokio::spawn(supervise(gate.clone(), process, lives, main));
        Self {
            supervisor,
            gate,
            freezer,
            skew,
            life,
        }
    }

    /// Places a crash at an effect to come.
    pub fn crash_at(&self, crash: Crash) {
        self.gate.crash_at(crash);
    }

    /// Crashes it now.
    pub fn crash(&self) {
        self.life.borrow().end("crash on demand");
    }

    /// Stops polling it, as a paused process or a stalled machine: its timers pass, nothing runs.
    pub fn freeze(&self) {
        self.freezer.freeze();
    }

    /// Lets it run again, unaware of the time that has passed.
    pub fn thaw(&self) {
        self.freezer.thaw();
    }

    /// Sets its wall clock ahead (or back) by so many milliseconds.
    pub fn skew_millis(&self, millis: i64) {
        self.skew.store(millis, Ordering::Relaxed);
    }

    /// Effects so far, over all its lives.
    #[must_use]
    pub fn effects(&self) -> u64 {
        self.gate.effects()
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.supervisor.abort();
        self.life.borrow().end("stopped");
    }
}

/// Gives the component one life after another.
async fn supervise<M, F>(gate: CrashGate, template: Process, lives: tokio::sync::watch::Sender<ProcessLife>, main: M)
where
    M: Fn(Process) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let life = gate.live();
        lives.send_replace(life.clone());
        let (tasks, mut spawned) = tokio::sync::mpsc::unbounded_channel();
        let process = Process {
            life: life.clone(),
            tasks,
            ..template.clone()
        };
        let freezer = process.freezer.clone();
        let mut running = JoinSet::new();
        running.spawn(Freezable::new(&freezer, main(process)));
        loop {
            tokio::select! {
                biased;
                () = life.crashed() => break,
                Some(task) = spawned.recv() => {
                    running.spawn(Freezable::new(&freezer, task));
                }
                Some(ended) = running.join_next() => if let Err(error) = ended {
                    panics::ended(error);
                    life.end("crash panic");
                },
                else => life.crashed().await,
            }
        }
        running.shutdown().await;
        sleep(RESTART_AFTER).await;
    }
}

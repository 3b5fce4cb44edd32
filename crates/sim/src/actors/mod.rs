//! The parts of a control plane that are not the API server, as far as operators notice them.
//!
//! Each actor is a task that follows the server's writes and answers with writes of its own, as a
//! system user. None polls; all delays are drawn from the server's seed, so a run stays a function
//! of it. The garbage collector and the namespace lifecycle are on unless turned off, because a
//! cluster without them is no cluster; the others stand in for machines and are opt-in.

mod deployment;
mod door;
mod gc;
mod heartbeat;
mod namespace;
mod queue;

use std::ops::Range;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::server::ApiServer;

/// Which actors run, and how fast they are.
#[derive(Clone, Debug)]
pub struct Actors {
    garbage_collector: Option<Range<Duration>>,
    namespace_lifecycle: Option<Range<Duration>>,
    deployment_readiness: Option<Range<Duration>>,
    node_heartbeats: Option<Duration>,
}

impl Default for Actors {
    fn default() -> Self {
        let as_measured = Duration::from_millis(10)..Duration::from_millis(60);
        Self {
            garbage_collector: Some(as_measured.clone()),
            namespace_lifecycle: Some(as_measured),
            deployment_readiness: None,
            node_heartbeats: None,
        }
    }
}

impl Actors {
    /// Nothing but the API server.
    #[must_use]
    pub fn none() -> Self {
        Self {
            garbage_collector: None,
            namespace_lifecycle: None,
            deployment_readiness: None,
            node_heartbeats: None,
        }
    }

    /// Collects garbage, each object this much after it became garbage.
    #[must_use]
    pub fn garbage_collector(mut self, delay: Range<Duration>) -> Self {
        self.garbage_collector = Some(delay);
        self
    }

    /// Empties and removes namespaces that are deleted, each step this much later.
    #[must_use]
    pub fn namespace_lifecycle(mut self, delay: Range<Duration>) -> Self {
        self.namespace_lifecycle = Some(delay);
        self
    }

    /// Reports deployments as rolled out, this much after each change.
    #[must_use]
    pub fn deployment_readiness(mut self, delay: Range<Duration>) -> Self {
        self.deployment_readiness = Some(delay);
        self
    }

    /// Renews the lease and the conditions of every node this often.
    #[must_use]
    pub fn node_heartbeats(mut self, every: Duration) -> Self {
        self.node_heartbeats = Some(every);
        self
    }

    /// Starts them. They stop when the answer is dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use = "the actors stop when this is dropped"]
    pub fn start(&self, server: &ApiServer) -> Running {
        let mut tasks = JoinSet::new();
        if let Some(delay) = &self.garbage_collector {
            tasks.spawn(gc::GarbageCollector::new(server, Delay::new(server, delay)).run());
        }
        if let Some(delay) = &self.namespace_lifecycle {
            tasks
                .spawn(namespace::NamespaceLifecycle::new(server, Delay::new(server, delay)).run());
        }
        if let Some(delay) = &self.deployment_readiness {
            let delay = Delay::new(server, delay);
            tasks.spawn(deployment::DeploymentReadiness::new(server, delay).run());
        }
        if let Some(every) = self.node_heartbeats {
            tasks.spawn(heartbeat::run(server.clone(), every));
        }
        Running { _tasks: tasks }
    }
}

/// Actors at work; they stop when it is dropped.
#[derive(Debug)]
pub struct Running {
    _tasks: JoinSet<()>,
}

/// Draws delays from a generator of its own, so that one actor's draws do not move another's.
#[derive(Debug)]
struct Delay {
    range: Range<Duration>,
    rng: fastrand::Rng,
}

impl Delay {
    fn new(server: &ApiServer, range: &Range<Duration>) -> Self {
        let rng = fastrand::Rng::with_seed(server.clock().below(u64::MAX));
        Self {
            range: range.clone(),
            rng,
        }
    }

    fn draw(&mut self) -> Duration {
        let width = self.range.end.saturating_sub(self.range.start);
        self.range.start + width.mul_f64(self.rng.f64())
    }
}

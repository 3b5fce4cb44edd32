//! The parts of a control plane that are not the API server, as far as operators notice them.
//!
//! Each actor is a task that follows the server's writes and answers with writes of its own, as a
//! system user. None polls; all delays are drawn from the server's seed, so a run stays a function
//! of it. The garbage collector and the namespace lifecycle are on unless turned off, because a
//! cluster without them is no cluster; the others stand in for machines and are opt-in.
#![forbid(unsafe_code)]

mod aggregation;
mod apiserver_controllers;
mod controller;
mod deployment;
mod events;
mod gc;
mod heartbeat;
mod namespace;
mod namespace_defaults;
mod owners;
mod pods;
mod queue;
mod quota;
mod readiness;
mod replicaset;
mod system_client;

use std::ops::Range;
use std::time::Duration;

use tokio::task::JoinSet;

use aplomb_apiserver::server::ApiServer;

use aggregation::RoleAggregation;
use apiserver_controllers::{Addresses, Definitions, FlowSchemas, Registrations};
use deployment::Deployments;
use namespace_defaults::{RootAuthority, ServiceAccounts};
use quota::ResourceQuotas;
use replicaset::ReplicaSets;

/// Which actors run, and how fast they are.
#[derive(Clone, Debug)]
pub struct Controllers {
    garbage_collector: Option<Range<Duration>>,
    namespace_lifecycle: Option<Range<Duration>>,
    namespace_furnishing: Option<Range<Duration>>,
    workloads: Option<Range<Duration>>,
    resource_quotas: Option<Range<Duration>>,
    deployment_readiness: Option<Range<Duration>>,
    node_heartbeats: Option<Duration>,
    role_aggregation: Option<Range<Duration>>,
    upkeep: bool,
}

impl Default for Controllers {
    fn default() -> Self {
        let as_measured = Duration::from_millis(10)..Duration::from_millis(60);
        Self {
            garbage_collector: Some(as_measured.clone()),
            namespace_lifecycle: Some(as_measured),
            namespace_furnishing: None,
            workloads: None,
            resource_quotas: None,
            deployment_readiness: None,
            node_heartbeats: None,
            role_aggregation: None,
            upkeep: false,
        }
    }
}

impl Controllers {
    /// Nothing but the API server.
    #[must_use]
    pub fn none() -> Self {
        Self {
            garbage_collector: None,
            namespace_lifecycle: None,
            namespace_furnishing: None,
            workloads: None,
            resource_quotas: None,
            deployment_readiness: None,
            node_heartbeats: None,
            role_aggregation: None,
            upkeep: false,
        }
    }

    /// What a small cluster's controller manager does, promptly.
    #[must_use]
    pub fn cluster() -> Self {
        let prompt = Duration::ZERO..Duration::from_millis(50);
        Self::none()
            .garbage_collector(prompt.clone())
            .namespace_lifecycle(prompt.clone())
            .namespace_furnishing(prompt.clone())
            .workloads(prompt.clone())
            .resource_quotas(prompt.clone())
            .role_aggregation(prompt)
            .upkeep()
    }

    /// Keeps what the API server itself keeps: the status of flow schemas and API services, the API
    /// services of custom resources, the addresses of Services.
    #[must_use]
    pub fn upkeep(mut self) -> Self {
        self.upkeep = true;
        self
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

    /// Keeps the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in every namespace,
    /// each made this much after it is missed.
    #[must_use]
    pub fn namespace_furnishing(mut self, delay: Range<Duration>) -> Self {
        self.namespace_furnishing = Some(delay);
        self
    }

    /// Rolls out deployments and keeps as many pods as replica sets ask for, each step this much
    /// later. There is no kubelet: pods stay pending until somebody writes their status.
    #[must_use]
    pub fn workloads(mut self, delay: Range<Duration>) -> Self {
        self.workloads = Some(delay);
        self
    }

    /// Says what is used of each quota, this much after it may have become less. Without it no quota
    /// limits anything: the API server goes by what the status says.
    #[must_use]
    pub fn resource_quotas(mut self, delay: Range<Duration>) -> Self {
        self.resource_quotas = Some(delay);
        self
    }

    /// Reports deployments as rolled out, this much after each change, in place of rolling them out.
    #[must_use]
    pub fn deployment_readiness(mut self, delay: Range<Duration>) -> Self {
        self.deployment_readiness = Some(delay);
        self
    }

    /// Gives ClusterRoles that are made of others the rules of those, this much after each change.
    #[must_use]
    pub fn role_aggregation(mut self, delay: Range<Duration>) -> Self {
        self.role_aggregation = Some(delay);
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
            tasks.spawn(namespace::NamespaceLifecycle::new(server, Delay::new(server, delay)).run());
        }
        if let Some(delay) = &self.namespace_furnishing {
            controller::start::<ServiceAccounts>(server, delay, &mut tasks);
            controller::start::<RootAuthority>(server, delay, &mut tasks);
        }
        if let Some(delay) = &self.workloads {
            controller::start::<ReplicaSets>(server, delay, &mut tasks);
            if self.deployment_readiness.is_none() {
                controller::start::<Deployments>(server, delay, &mut tasks);
            }
        }
        if let Some(delay) = &self.resource_quotas {
            controller::start::<ResourceQuotas>(server, delay, &mut tasks);
        }
        if let Some(delay) = &self.deployment_readiness {
            let delay = Delay::new(server, delay);
            tasks.spawn(readiness::DeploymentReadiness::new(server, delay).run());
        }
        if let Some(delay) = &self.role_aggregation {
            controller::start::<RoleAggregation>(server, delay, &mut tasks);
        }
        if let Some(every) = self.node_heartbeats {
            tasks.spawn(heartbeat::run(server.clone(), every));
        }
        if self.upkeep {
            start_upkeep(server, &mut tasks);
        }
        Running { _tasks: tasks }
    }
}

/// On the real server these are done before a request is answered, or as soon as it is.
fn start_upkeep(server: &ApiServer, tasks: &mut JoinSet<()>) {
    let at_once = Duration::ZERO..Duration::ZERO;
    controller::start::<FlowSchemas>(server, &at_once, tasks);
    controller::start::<Definitions>(server, &at_once, tasks);
    controller::start::<Registrations>(server, &at_once, tasks);
    controller::start::<Addresses>(server, &at_once, tasks);
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

#[cfg(doctest)]
#[doc = include_str!("../../apiserver/README.md")]
struct Readme;

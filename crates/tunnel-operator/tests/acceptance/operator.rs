//! A replica of the operator: a simulated process that can be crashed and frozen.

use std::future::pending;
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::{Clock, Tasks, Telemetry};
use aplomb_simulation::{Component, Process};
use aplomb_tunnel_operator::{
    ProbeClient, ProbeError, ProbeRequest, ProbeResponse, TunnelDeps, TunnelMetrics, TunnelSettings,
};
use futures::future::BoxFuture;
use kube::Client;

use crate::lab::{Lab, NAMESPACE};
use crate::net::Net;

/// A replica and its metrics, across restarts.
pub struct Operator {
    pub component: Component,
    pub telemetry: Telemetry,
}

impl Operator {
    pub fn start(lab: &Lab, name: &str) -> Self {
        Self::with(lab, name, true)
    }

    /// The same without leader election, for runs in which the leader's own lease would dominate the work.
    pub fn without_leader_election(lab: &Lab, name: &str) -> Self {
        Self::with(lab, name, false)
    }

    fn with(lab: &Lab, name: &str, leader_elect: bool) -> Self {
        let telemetry = Telemetry::default();
        let counts = telemetry.clone();
        let (seed, net) = (lab.cluster.seed(), lab.net.clone());
        let component = lab.cluster.start(name, move |process| {
            let tasks = process.clone();
            let clock = process.clock().clone();
            let ask = EffectProbeClient(process.clone(), net.clone());
            let parts = TunnelDeps {
                probe_client: Arc::new(ask),
                seed,
                clock: Clock::new(move || clock.now()),
                tasks: Some(Tasks::with_spawner(move |task| tasks.spawn(task))),
                telemetry: counts.clone(),
                admin: AdminRegistry::default(),
                server: None,
                tunnels: TunnelMetrics::default(),
            };
            let name = process.name().to_owned();
            run(process.plain_client(), name, leader_elect, parts)
        });
        Self { component, telemetry }
    }

    /// Reconciles of a controller so far.
    pub fn passes(&self, controller: &str) -> f64 {
        let metrics = self.telemetry.text();
        let total = metrics
            .lines()
            .filter(|line| line.starts_with("controller_runtime_reconcile_total{") && line.contains(controller));
        total
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

/// Runs until it is stopped.
pub async fn run(client: Client, identity: String, leader_elect: bool, parts: TunnelDeps) {
    let settings = TunnelSettings {
        leader_elect,
        domain: "tunnels.example.com".to_owned(),
        namespace: NAMESPACE.to_owned(),
        identity,
        ..TunnelSettings::default()
    };
    let engine = aplomb_tunnel_operator::operator(client, &settings, parts);
    engine.run(pending()).await.expect("it runs until it is stopped");
}

/// Sends probes through the simulated network; each one is an effect of the process.
struct EffectProbeClient(Process, Net);

impl ProbeClient for EffectProbeClient {
    fn send<'a>(&'a self, question: &'a ProbeRequest) -> BoxFuture<'a, Result<ProbeResponse, ProbeError>> {
        let what = format!("prove {} rule {}", question.hostname, question.rule);
        Box::pin(async move { self.0.effect(&what, self.1.send(question)).await })
    }
}

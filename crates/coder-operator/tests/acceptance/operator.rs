//! A replica of the operator: a simulated process that can be crashed at any effect, whose calls to
//! the servers are effects too.

use std::future::pending;
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::{Clock, Tasks, Telemetry};
use aplomb_coder_operator::telemetry::CoderMetrics;
use aplomb_coder_operator::{CoderDeps, CoderSettings};
use aplomb_simulation::{Component, Process};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::lab::{Lab, SYSTEM};
use crate::wire::{Flaw, Wire};

/// A replica and its metrics across restarts.
pub struct Replica {
    pub component: Component,
    pub telemetry: Telemetry,
    pub coder: CoderMetrics,
}

impl Replica {
    pub fn start(lab: &Lab, name: &str) -> Self {
        Self::start_flawed(lab, name, Flaw::None)
    }

    /// A replica with a faulty transport to the servers.
    pub fn start_flawed(lab: &Lab, name: &str, flaw: Flaw) -> Self {
        let (telemetry, coder) = (Telemetry::default(), CoderMetrics::default());
        let (counts, shows) = (telemetry.clone(), coder.clone());
        let wire = Wire::for_lab(lab, flaw);
        let component = lab.cluster.start(name, move |process| {
            let (way, tasks) = (process.clone(), process.clone());
            let wire = wire.clone();
            let parts = CoderDeps {
                connect: Arc::new(move |_| Ok(wire.transport(&way))),
                clock: Clock::system(),
                tasks: Some(Tasks::with_spawner(move |task| tasks.spawn(task))),
                telemetry: counts.clone(),
                admin_registry: AdminRegistry::default(),
                api_limits: None,
                coder: shows.clone(),
            };
            run(process, parts)
        });
        Self {
            component,
            telemetry,
            coder,
        }
    }

    /// Its metrics as a scrape returns them, of the runtime and the operator.
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        self.coder.register(&mut registry);
        let mut shown = self.telemetry.text();
        text::encode(&mut shown, &registry).expect("a String takes any text");
        shown
    }

    /// The sum of the series whose name and labels contain all of `parts`.
    pub fn metric(&self, parts: &[&str]) -> f64 {
        let metrics = self.metrics();
        let lines = metrics.lines().filter(|line| !line.starts_with('#'));
        let found = lines.filter(|line| parts.iter().all(|part| line.contains(part)));
        let values = found.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }
}

async fn run(process: Process, parts: CoderDeps) {
    let settings = CoderSettings {
        namespace: SYSTEM.to_owned(),
        identity: process.name().to_owned(),
        ..CoderSettings::default()
    };
    let engine = aplomb_coder_operator::operator(process.plain_client(), &settings, parts);
    engine.run(pending()).await.expect("it runs until it is stopped");
}

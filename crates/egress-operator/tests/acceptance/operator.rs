//! A replica of the operator: a simulated process that can be crashed at any effect and frozen,
//! whose calls to the provider are effects too.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::{Clock, Tasks, Telemetry};
use aplomb_egress_operator::telemetry::EgressMetrics;
use aplomb_egress_operator::{EgressDeps, EgressSettings};
use aplomb_fake_services::hcloud::FakeHcloud;
use aplomb_http_client::Transport;
use aplomb_simulation::{Component, Process};
use bytes::Bytes;
use http::Request;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt, service_fn};

use crate::lab::{Lab, NAMESPACE};
use crate::valve::Valve;

/// A replica and its metrics across restarts.
pub struct Replica {
    pub component: Component,
    pub telemetry: Telemetry,
    pub egress: EgressMetrics,
}

impl Replica {
    pub fn start(lab: &Lab, name: &str) -> Self {
        Self::start_with(lab, name, None)
    }

    /// A replica with a token file for StableEgress objects that name no Secret.
    pub fn with_token_file(lab: &Lab, name: &str, file: &Path) -> Self {
        Self::start_with(lab, name, Some(file.to_owned()))
    }

    fn start_with(lab: &Lab, name: &str, token_file: Option<PathBuf>) -> Self {
        let (telemetry, egress) = (Telemetry::default(), EgressMetrics::default());
        let (counts, shows) = (telemetry.clone(), egress.clone());
        let (hetzner, probe) = (lab.hetzner.clone(), lab.reach.probe_from(name));
        let valve = lab.valve.clone();
        let component = lab.cluster.start(name, move |process| {
            let (wire, tasks) = (process.clone(), process.clone());
            let (hetzner, valve) = (hetzner.clone(), valve.clone());
            let parts = EgressDeps {
                connect: Arc::new(move || transport(&wire, &hetzner, &valve)),
                probe: probe.clone(),
                clock: Clock::system(),
                tasks: Some(Tasks::with_spawner(move |task| tasks.spawn(task))),
                telemetry: counts.clone(),
                admin_registry: AdminRegistry::default(),
                api_limits: None,
                egress: shows.clone(),
            };
            run(process, token_file.clone(), parts)
        });
        Self {
            component,
            telemetry,
            egress,
        }
    }

    /// Its metrics as a scrape returns them, of the runtime and the operator.
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        self.egress.register(&mut registry);
        let mut shown = self.telemetry.text();
        text::encode(&mut shown, &registry).expect("a String takes any text");
        shown
    }

    /// The value of a series whose name and labels contain all of `parts`.
    pub fn metric(&self, parts: &[&str]) -> Option<f64> {
        let metrics = self.metrics();
        let lines = metrics.lines().filter(|line| !line.starts_with('#'));
        let mut found = lines.filter(|line| parts.iter().all(|part| line.contains(part)));
        found.next()?.rsplit(' ').next()?.parse().ok()
    }
}

async fn run(process: Process, token_file: Option<PathBuf>, parts: EgressDeps) {
    let settings = EgressSettings {
        endpoint: "https://api.example.com/v1".to_owned(),
        namespace: NAMESPACE.to_owned(),
        identity: process.name().to_owned(),
        token_file,
        ..EgressSettings::default()
    };
    let engine = aplomb_egress_operator::operator(process.plain_client(), &settings, parts);
    engine.run(pending()).await.expect("it runs until it is stopped");
}

/// Every call is an effect of the process.
fn transport(process: &Process, hetzner: &FakeHcloud, valve: &Valve) -> Transport {
    let (process, service, valve) = (process.clone(), hetzner.service(), valve.clone());
    BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        let (process, service, valve) = (process.clone(), service.clone(), valve.clone());
        async move {
            let what = format!("{} {}", request.method(), request.uri().path());
            let sent = valve.pass(process.name(), &what, service.oneshot(request));
            process.effect(&what, sent).await
        }
    }))
}

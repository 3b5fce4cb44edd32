//! An API server in a box, an agent, and the operator's part.

use std::time::Duration;

use anyhow::{Context, Result};
use aplomb::tasks::TaskHandle;
use aplomb::{Clock, Tasks};
use aplomb_api::tunnel::{Connector, HttpProxy};
use aplomb_apiserver::ApiServer;
use aplomb_tunnel_agent::register::{DesiredConnector, DesiredHttpProxy};
use aplomb_tunnel_agent::serve::NetworkConfig;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_agent::{AgentEvent, AgentKey, AgentSettings, run};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub(crate) const NAMESPACE: &str = "default";
pub(crate) const NAME: &str = "web";
const TIMEOUT: Duration = Duration::from_secs(120);

/// A cluster with the CRDs installed.
pub(crate) struct Lab {
    pub(crate) client: Client,
}

impl Lab {
    pub(crate) async fn start() -> Result<Self> {
        let client = aplomb_apiserver::http::client(&ApiServer::builder().build());
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in [Connector::crd(), HttpProxy::crd()] {
            let name = crd.name_any();
            crds.create(&PostParams::default(), &crd).await?;
            let ready = await_condition(crds.clone(), &name, is_crd_established());
            timeout(TIMEOUT, ready).await??;
        }
        Ok(Self { client })
    }

    pub(crate) fn connectors(&self) -> Api<Connector> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn proxies(&self) -> Api<HttpProxy> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Waits until the lease is held by `session`; released, if that is empty.
    pub(crate) async fn wait_lease_holder(&self, session: &str) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let held = |lease: Option<&Lease>| {
            let spec = lease.and_then(|lease| lease.spec.as_ref());
            spec.and_then(|spec| spec.holder_identity.as_deref()) == Some(session)
        };
        let held = timeout(TIMEOUT, await_condition(leases, NAME, held)).await;
        held.with_context(|| format!("never held by {session:?}"))??;
        Ok(())
    }

    /// Writes part of a status as the operator does.
    pub(crate) async fn patch_status(&self, status: Value) -> Result<()> {
        let patch = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "Connector", "status": status,
        });
        let params = PatchParams::apply("aplomb-tunnel").force();
        let api = self.connectors();
        api.patch_status(NAME, &params, &Patch::Apply(&patch)).await?;
        Ok(())
    }

    pub(crate) async fn accept(&self, gateways: &[String]) -> Result<()> {
        self.accept_with(gateways, &[]).await
    }

    pub(crate) async fn accept_with(&self, gateways: &[String], relays: &[&str]) -> Result<()> {
        let status = json!({ "gateways": gateways, "relays": relays });
        self.patch_status(status).await
    }

    pub(crate) fn agent(&self, settings: AgentSettings) -> Agent {
        let (events, told) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        let work = run(self.client.clone(), settings, events, shutdown);
        Agent {
            events: told,
            stop,
            running: Tasks::on_runtime().spawn(work),
        }
    }
}

/// Settings of an agent that listens on loopback only.
pub(crate) fn settings(key: AgentKey) -> AgentSettings {
    let target = "localhost:3000".parse().expect("a target");
    AgentSettings {
        key,
        connector: DesiredConnector {
            namespace: NAMESPACE.to_owned(),
            name: NAME.to_owned(),
            class: None,
            lease: None,
        },
        proxy: Some(DesiredHttpProxy {
            name: NAME.to_owned(),
            hostnames: Vec::new(),
            target,
            https: false,
        }),
        expose: vec!["localhost:3000".parse().expect("a target")],
        network: NetworkConfig {
            bind: vec![([127, 0, 0, 1], 0).into()],
            ..NetworkConfig::default()
        },
        origin_tls: OriginTlsSettings::default(),
        version: "0.1.0".to_owned(),
        device: Some("attic".to_owned()),
        delete_on_exit: false,
        clock: Clock::system(),
    }
}

pub(crate) fn key() -> AgentKey {
    AgentKey::new(iroh::SecretKey::generate())
}

/// A running agent.
pub(crate) struct Agent {
    events: mpsc::UnboundedReceiver<AgentEvent>,
    stop: oneshot::Sender<()>,
    running: TaskHandle<aplomb_tunnel_agent::Result<()>>,
}

impl Agent {
    /// The next event that `fits`.
    pub(crate) async fn next_event(&mut self, fits: impl Fn(&AgentEvent) -> bool) -> Result<AgentEvent> {
        let work = async {
            loop {
                let event = self.events.recv().await.context("the agent ended")?;
                if fits(&event) {
                    return Ok(event);
                }
            }
        };
        timeout(TIMEOUT, work).await.context("event was not reported")?
    }

    /// How it ends by itself.
    pub(crate) async fn wait_ended(self) -> Result<aplomb_tunnel_agent::Result<()>> {
        let ended = timeout(TIMEOUT, self.running.join()).await;
        ended.context("it keeps running")?.context("it panicked")
    }

    /// Shuts it down and waits for that.
    pub(crate) async fn stop(self) -> Result<Vec<AgentEvent>> {
        drop(self.stop);
        let ended = timeout(TIMEOUT, self.running.join()).await;
        ended.context("it keeps running")?.context("it panicked")??;
        let mut told = self.events;
        let mut rest = Vec::new();
        while let Ok(event) = told.try_recv() {
            rest.push(event);
        }
        Ok(rest)
    }
}

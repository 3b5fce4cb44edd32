//! The data plane: a gateway, an agent, and two local services behind it. The agent creates the first
//! tunnel, as `aplomb connect` does; its URL is printed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_api::tunnel::{GatewayReplica, HttpProxy};
use aplomb_tunnel_agent::register::{DesiredConnector, DesiredHttpProxy};
use aplomb_tunnel_agent::serve::NetworkConfig;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_agent::{AgentKey, ExposedTarget};
use axum::Router;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{DemoDir, NAMESPACE, SYSTEM_NAMESPACE, Start};
use crate::client::{ObjectWatch, is_true};

/// The first tunnel, and the one that a story creates.
const HELLO: &str = "hello";
pub(crate) const SHOP: &str = "shop";
const CONNECTOR: &str = "laptop";
const REPLICA: &str = "gateway-1";
/// Generous: a debug build on a busy machine starts much at once here.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub(crate) struct DataPlane {
    /// The public listener.
    pub(crate) gateway: SocketAddr,
    /// When the agent registered.
    pub(crate) registered: Instant,
    /// The service of the first tunnel.
    _hello: LocalService,
    /// The service of the other tunnels.
    pub(crate) shop: LocalService,
}

impl DataPlane {
    /// Starts it, and returns when the first tunnel is proven.
    pub(super) async fn start(start: &Start<'_>, client: &Client, home: &DemoDir) -> Result<Self> {
        let hello = LocalService::start("hello from your laptop\n", start.tasks).await?;
        let shop = LocalService::start("hello from the shop\n", start.tasks).await?;
        start_gateway(start, client.clone());
        let registered = Instant::now();
        start_agent(start, client.clone(), home, &[&hello, &shop])?;
        let replicas: Api<GatewayReplica> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let mut eye = ObjectWatch::new(replicas, REPLICA);
        let replica = eye.wait_until(READY_TIMEOUT, "there", |_| true).await?;
        let gateway = replica.spec.listen.parse().context("the gateway's address")?;
        let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), NAMESPACE);
        let mut eye = ObjectWatch::new(proxies, HELLO);
        eye.wait_until(READY_TIMEOUT, "Ready", is_ready).await?;
        Ok(Self {
            gateway,
            registered,
            _hello: hello,
            shop,
        })
    }
}

pub(crate) fn hostname(name: &str) -> String {
    format!("{name}.example.com")
}

pub(crate) fn is_ready(proxy: &HttpProxy) -> bool {
    let status = proxy.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, "Ready"))
}

/// Create options with a person's field manager.
pub(crate) fn user_post_params() -> PostParams {
    PostParams {
        field_manager: Some("kubectl-create".to_owned()),
        ..PostParams::default()
    }
}

/// A tunnel to `service`, as a person writes it.
pub(crate) fn proxy(name: &str, service: &LocalService) -> Result<HttpProxy> {
    let endpoint = format!("http://{}", service.address());
    let proxy = json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "HTTPProxy",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "hostnames": [hostname(name)],
            "proofInterval": "2s",
            "rules": [{ "backends": [
                { "endpoint": endpoint, "connector": { "name": CONNECTOR } },
            ] }],
        },
    });
    Ok(serde_json::from_value(proxy)?)
}

fn start_gateway(start: &Start<'_>, client: Client) {
    let mut settings = aplomb_tunnel_gateway::GatewaySettings::new(REPLICA, LOOPBACK);
    settings.quic_bind = Some(LOOPBACK);
    settings.default_host = Some(hostname(HELLO));
    settings.drain = Duration::from_secs(1);
    let stopped = start.until_stopped();
    start.spawn_part("the gateway", async move {
        Ok(aplomb_tunnel_gateway::run(client, settings, stopped).await?)
    });
}

fn start_agent(start: &Start<'_>, client: Client, home: &DemoDir, services: &[&LocalService]) -> Result<()> {
    let expose = services.iter().map(|it| service_target(it));
    let expose = expose.collect::<Result<Vec<ExposedTarget>>>()?;
    let settings = aplomb_tunnel_agent::AgentSettings {
        key: AgentKey::open(&home.key_path())?,
        connector: DesiredConnector {
            namespace: NAMESPACE.to_owned(),
            name: CONNECTOR.to_owned(),
            class: None,
            lease: None,
        },
        proxy: expose.first().map(|target| DesiredHttpProxy {
            name: HELLO.to_owned(),
            hostnames: vec![hostname(HELLO)],
            target: target.clone(),
            https: false,
        }),
        expose,
        network: NetworkConfig {
            bind: vec![LOOPBACK],
            ..NetworkConfig::default()
        },
        origin_tls: OriginTlsSettings::default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: Some(CONNECTOR.to_owned()),
        delete_on_exit: false,
        clock: aplomb::Clock::system(),
    };
    let stopped = start.until_stopped();
    start.spawn_part("the agent", async move {
        let (events, mut told) = mpsc::unbounded_channel();
        let listen = async { while told.recv().await.is_some() {} };
        let agent = aplomb_tunnel_agent::run(client, settings, events, stopped);
        let (ended, ()) = futures::join!(agent, listen);
        Ok(ended?)
    });
    Ok(())
}

fn service_target(service: &LocalService) -> Result<ExposedTarget> {
    let target = service.address().to_string().parse();
    target.map_err(|why: String| anyhow::anyhow!(why))
}

/// A small local service, like one on a laptop: it responds to every request with its name, and can be stopped and
/// restarted at the same address. Stops when it is dropped.
#[derive(Debug)]
pub(crate) struct LocalService {
    answer: String,
    address: SocketAddr,
    tasks: Tasks,
    serving: Arc<Mutex<Option<TaskHandle<()>>>>,
}

impl LocalService {
    /// Starts one on a free port that responds with `answer`.
    pub(crate) async fn start(answer: &str, tasks: &Tasks) -> Result<Self> {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let service = Self {
            answer: answer.to_owned(),
            address: listener.local_addr()?,
            tasks: tasks.clone(),
            serving: Arc::default(),
        };
        service.serve(listener);
        Ok(service)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn body(&self) -> &str {
        &self.answer
    }

    /// Stops it: from now on connections are refused.
    pub(crate) fn stop(&self) {
        drop(self.lock_task().take());
    }

    pub(crate) async fn restart(&self) -> Result<()> {
        let listener = listen(self.address).await?;
        self.serve(listener);
        Ok(())
    }

    fn serve(&self, listener: TcpListener) {
        let answer = self.answer.clone();
        let router = Router::new().fallback(async move || answer);
        let task = self.tasks.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "Local service stopped");
            }
        });
        *self.lock_task() = Some(task);
    }

    fn lock_task(&self) -> MutexGuard<'_, Option<TaskHandle<()>>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("listen on {address}"))
}

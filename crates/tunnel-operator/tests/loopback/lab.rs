//! A cluster with operator and gateway, and agents that tests start.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use aplomb::tasks::TaskHandle;
use aplomb::{Clock, Tasks};
use aplomb_api::tunnel::{Connector, ConnectorClass, GatewayReplica, HttpProxy};
use aplomb_apiserver::ApiServer;
use aplomb_tunnel_agent::register::DesiredConnector;
use aplomb_tunnel_agent::serve::NetworkConfig;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_agent::{AgentEvent, AgentKey};
use iroh_base::SecretKey;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

const SYSTEM: &str = "aplomb-system";
/// The namespace with private services.
pub const VICTIM: &str = "team-a";
/// The namespace of a tenant who can read a Connector there.
pub const ATTACKER: &str = "mallory";
const TIMEOUT: Duration = Duration::from_secs(60);
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A cluster with an operator and one gateway.
pub struct Lab {
    pub client: Client,
    /// The public listener.
    pub listener: SocketAddr,
    _parts: Vec<TaskHandle<()>>,
}

impl Lab {
    pub async fn start() -> Self {
        Self::with(true).await
    }

    /// The same with `--headers`.
    pub async fn with(headers: bool) -> Self {
        let client = aplomb_apiserver::http::client(&ApiServer::builder().build());
        install(&client).await;
        let tasks = Tasks::on_runtime();
        let operator = client.clone();
        let operator = tasks.spawn(async move {
            let settings = aplomb_tunnel_operator::TunnelSettings {
                leader_elect: false,
                ..aplomb_tunnel_operator::TunnelSettings::default()
            };
            let parts = aplomb_tunnel_operator::TunnelDeps::production(1);
            let ended = aplomb_tunnel_operator::run(operator, &settings, parts, pending()).await;
            panic!("the operator ended: {ended:?}");
        });
        let mut settings = aplomb_tunnel_gateway::GatewaySettings::new("gateway-1", LOOPBACK);
        settings.quic_bind = Some(LOOPBACK);
        settings.headers = headers;
        let gateway = aplomb_tunnel_gateway::run(client.clone(), settings, pending());
        let gateway = tasks.spawn(async move {
            let ended = gateway.await;
            panic!("the gateway ended: {ended:?}");
        });
        let replicas: Api<GatewayReplica> = Api::namespaced(client.clone(), SYSTEM);
        let found = async || replicas.get_opt("gateway-1").await.ok().flatten();
        let replica = until("the gateway is registered", found).await;
        Self {
            client,
            listener: replica.spec.listen.parse().unwrap(),
            _parts: vec![operator, gateway],
        }
    }

    pub fn connectors(&self, namespace: &str) -> Api<Connector> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub fn proxies(&self, namespace: &str) -> Api<HttpProxy> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A condition of an HTTPProxy, if it is about the newest spec.
    pub async fn condition(&self, namespace: &str, name: &str, kind: &str) -> Option<Condition> {
        let proxy = self.proxies(namespace).get(name).await.ok()?;
        let mut all = proxy.status?.conditions.into_iter();
        all.find(|it| it.type_ == kind && it.observed_generation == proxy.metadata.generation)
    }

    /// Waits until `Ready` has this reason.
    pub async fn wait_ready(&self, namespace: &str, name: &str, reason: &str) -> Condition {
        let began = Instant::now();
        loop {
            let ready = self.condition(namespace, name, "Ready").await;
            if let Some(ready) = ready.clone().filter(|it| it.reason == reason) {
                return ready;
            }
            assert!(began.elapsed() < TIMEOUT, "not {reason} but {ready:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Creates a Connector without an agent.
    pub async fn create_connector(&self, namespace: &str, name: &str) {
        let connector = object("Connector", name, &json!({}));
        let connector = serde_json::from_value(connector).unwrap();
        let connectors = self.connectors(namespace);
        connectors.create(&PostParams::default(), &connector).await.unwrap();
    }

    /// The connection details of a Connector.
    pub async fn connection_details(&self, namespace: &str, name: &str) -> Value {
        let connector = self.connectors(namespace).get(name).await.unwrap();
        json!(connector.status.unwrap().connection_details)
    }

    /// Writes these details into a Connector.
    pub async fn copy_details(&self, namespace: &str, name: &str, details: &Value) {
        let status = json!({ "status": { "connectionDetails": details } });
        let connectors = self.connectors(namespace);
        let params = PatchParams::default();
        connectors
            .patch_status(name, &params, &Patch::Merge(&status))
            .await
            .unwrap();
    }

    /// Creates an HTTPProxy with the hostname `NAME.example.com` and one rule with this backend.
    pub async fn create_tunnel(&self, namespace: &str, name: &str, backend: &Value) {
        let spec = json!({
            "hostnames": [hostname(name)],
            "proofInterval": "2s",
            "rules": [{ "backends": [backend] }],
        });
        let proxy = serde_json::from_value(object("HTTPProxy", name, &spec)).unwrap();
        let proxies = self.proxies(namespace);
        proxies.create(&PostParams::default(), &proxy).await.unwrap();
    }

    /// Starts the agent of a Connector.
    pub fn start_agent(&self, namespace: &str, name: &str, key: u8, expose: &[&str]) -> Agent {
        let expose = expose.iter().map(|it| it.parse().unwrap());
        let settings = aplomb_tunnel_agent::AgentSettings {
            key: AgentKey::new(SecretKey::from_bytes(&[key; 32])),
            connector: DesiredConnector {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                class: None,
                lease: None,
            },
            proxy: None,
            expose: expose.collect(),
            network: NetworkConfig {
                bind: vec![LOOPBACK],
                ..NetworkConfig::default()
            },
            origin_tls: OriginTlsSettings::default(),
            version: "0.0.0".to_owned(),
            device: None,
            delete_on_exit: false,
            clock: Clock::system(),
        };
        let (events, received) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let run = aplomb_tunnel_agent::run(self.client.clone(), settings, events, stopped);
        Agent {
            received,
            stop,
            running: Tasks::on_runtime().spawn(run),
        }
    }
}

/// A running agent.
pub struct Agent {
    received: mpsc::UnboundedReceiver<AgentEvent>,
    stop: oneshot::Sender<()>,
    running: TaskHandle<aplomb_tunnel_agent::Result<()>>,
}

impl Agent {
    /// The events of this name so far, as JSON.
    pub fn events(&mut self, event: &str) -> Vec<Value> {
        let mut all = Vec::new();
        while let Ok(event) = self.received.try_recv() {
            all.push(json!(event));
        }
        all.retain(|it| it["event"] == event);
        all
    }

    /// Stops it, and waits until it has ended.
    pub async fn stop(self) {
        drop(self.stop);
        self.running.join().await.unwrap().unwrap();
    }

    /// Waits until it ends by itself.
    pub async fn wait_ended(self) -> aplomb_tunnel_agent::Result<()> {
        self.running.join().await.unwrap()
    }
}

pub fn hostname(name: &str) -> String {
    format!("{name}.example.com")
}

/// A backend behind the agent of a Connector.
pub fn backend(endpoint: impl std::fmt::Display, connector: &str) -> Value {
    json!({ "endpoint": format!("http://{endpoint}"), "connector": { "name": connector } })
}

/// Waits until `look` returns a value.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "not in time: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    })
}

/// Creates the namespaces and the CRDs.
async fn install(client: &Client) {
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in [SYSTEM, VICTIM, ATTACKER] {
        let namespace = json!({ "metadata": { "name": name } });
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces.create(&params, &namespace).await.unwrap();
    }
    let theirs = aplomb_api::gateway_api::DEFINITIONS;
    let theirs = theirs.map(|(_, text)| serde_saphyr::from_str(text).unwrap());
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in theirs.into_iter().chain(aplomb_api::definitions()) {
        definitions.create(&params, &definition).await.unwrap();
    }
    let classes: Api<ConnectorClass> = Api::all(client.clone());
    let served = async || classes.list(&Default::default()).await.ok();
    until("the kinds are served", served).await;
}

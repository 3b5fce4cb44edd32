//! Two nodes with addresses of this machine, each with a listener for probes while the node is up, and
//! the StableEgress that follows them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use aplomb_api::egress::StableEgress;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::net::TcpListener;

/// The name of the StableEgress and of its floating IP.
pub(crate) const EGRESS: &str = "web";
pub(crate) const IP_NAME: &str = "web-egress";
pub(crate) const NODES: [(&str, u64); 2] = [("gateway-a", 101), ("gateway-b", 102)];
/// How many ports are tried that must be free at both addresses.
const MAX_BIND_ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(crate) struct DemoNodes {
    port: u16,
    /// A node without a listener is dead. The kernel accepts the probes of a live one.
    listeners: Mutex<Vec<Option<TcpListener>>>,
}

impl DemoNodes {
    /// Starts the listeners and registers the nodes.
    pub(crate) async fn start(client: &Client) -> Result<Self> {
        let (port, listeners) = bind_listeners().await?;
        let all: Api<Node> = Api::all(client.clone());
        for (at, (name, server)) in NODES.iter().enumerate() {
            let node = json!({
                "metadata": { "name": name, "labels": { "egress.aplomb.dev/candidate": EGRESS } },
                "spec": { "providerID": format!("hcloud://{server}") },
                "status": {
                    "addresses": [{ "type": "InternalIP", "address": node_address(at) }],
                    "conditions": [{ "type": "Ready", "status": "True" }],
                },
            });
            let node = serde_json::from_value(node)?;
            all.create(&PostParams::default(), &node).await?;
        }
        let listeners = Mutex::new(listeners);
        Ok(Self { port, listeners })
    }

    /// Creates the StableEgress: a node that fails three probes in a row is dead.
    pub(crate) async fn create_egress(&self, client: &Client) -> Result<()> {
        let egress = json!({
            "metadata": { "name": EGRESS },
            "spec": {
                "floatingIP": { "name": IP_NAME },
                "tokenSecretRef": { "name": "hcloud" },
                "health": { "signal": "probe", "probe": {
                    "port": self.port, "interval": "2s", "timeout": "1s", "failures": 3,
                } },
            },
        });
        let all: Api<StableEgress> = Api::all(client.clone());
        let egress = serde_json::from_value(egress)?;
        all.create(&PostParams::default(), &egress).await?;
        Ok(())
    }

    /// Simulates a power failure of the node.
    pub(crate) fn stop_node(&self, name: &str) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        for (listener, (node, _)) in listeners.iter_mut().zip(NODES) {
            if node == name {
                *listener = None;
            }
        }
    }
}

fn node_address(at: usize) -> IpAddr {
    let last = u8::try_from(at + 2).expect("there are two nodes");
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

/// One port that is free at the addresses of all nodes.
async fn bind_listeners() -> Result<(u16, Vec<Option<TcpListener>>)> {
    let mut trouble = None;
    for _ in 0..MAX_BIND_ATTEMPTS {
        let first = TcpListener::bind((node_address(0), 0)).await;
        let first = first.context("listen on 127.0.0.2, an address of this machine")?;
        let port = first.local_addr()?.port();
        match TcpListener::bind(SocketAddr::new(node_address(1), port)).await {
            Ok(second) => return Ok((port, vec![Some(first), Some(second)])),
            Err(error) => trouble = Some(error),
        }
    }
    Err(trouble.context("at least one port was tried")?).context("listen on 127.0.0.3")
}

//! Worlds from few words. A tunnel is what the operator writes for an HTTPProxy.

use std::sync::Arc;

use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::{Claimant, ConnectionDetails, canonical_hostname};
use serde_json::{Value, json};

use crate::control::inputs::{Claim, ConnectorInfo, TableInputs};
use crate::routing::{RoutingTable, VirtualHost};

pub(super) const DOMAIN: &str = "tunnels.example.com";

/// The endpoint id of every agent here.
pub(super) fn id() -> String {
    "ab".repeat(32)
}

/// An HTTPProxy and its children.
#[derive(Clone, Debug)]
pub(super) struct Tunnel {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) hostnames: Vec<String>,
    pub(super) rules: Vec<Value>,
}

impl Tunnel {
    /// One with its canonical hostname and one rule, to the Connector `laptop`.
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        let uid = format!("uid-{namespace}-{name}");
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            hostnames: vec![canonical_hostname(&uid, DOMAIN)],
            rules: vec![to_slice(name)],
            uid,
        }
    }

    pub(super) fn canonical(&self) -> String {
        canonical_hostname(&self.uid, DOMAIN)
    }

    fn meta(&self) -> Value {
        json!({
            "namespace": self.namespace, "name": self.name, "uid": format!("{}-child", self.uid),
            "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1,
            "annotations": { "tunnel.aplomb.dev/generation": "3" },
            "ownerReferences": [owner(&self.name, &self.uid)],
        })
    }

    pub(super) fn gateway(&self) -> Value {
        let listeners = self.hostnames.iter().map(|hostname| {
            json!({ "name": format!("http-{hostname}"), "hostname": hostname, "port": 80, "protocol": "HTTP" })
        });
        let listeners: Vec<_> = listeners.collect();
        json!({
            "metadata": self.meta(),
            "spec": { "gatewayClassName": "aplomb", "listeners": listeners },
        })
    }

    pub(super) fn route(&self) -> Value {
        json!({
            "metadata": self.meta(),
            "spec": {
                "parentRefs": [{ "name": self.name }], "hostnames": self.hostnames, "rules": self.rules,
            },
        })
    }

    fn slice(&self) -> Value {
        let mut slice = json!({
            "metadata": self.meta(), "addressType": "FQDN",
            "endpoints": [{ "addresses": ["laptop.connector.internal"] }],
        });
        slice["metadata"]["annotations"] = json!({
            "tunnel.aplomb.dev/connector": "laptop",
            "tunnel.aplomb.dev/endpoint": "http://localhost:3000",
        });
        slice
    }
}

pub(super) fn owner(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "controller": true,
        "name": name, "uid": uid,
    })
}

/// A rule whose backend is an EndpointSlice.
pub(super) fn to_slice(name: &str) -> Value {
    json!({ "backendRefs": [
        { "group": "discovery.k8s.io", "kind": "EndpointSlice", "name": name, "port": 3000 },
    ] })
}

fn read<V: View>(object: Value) -> Arc<V> {
    Arc::new(serde_json::from_value(object).expect("an object"))
}

impl TableInputs {
    /// The HTTPProxy, its children and its Connector.
    pub(super) fn tunnel(mut self, tunnel: &Tunnel) -> Self {
        let key = |name: &str| ObjectKey::new(Some(&tunnel.namespace), name);
        self.proxies.insert(key(&tunnel.name), tunnel.uid.clone());
        self.connectors.insert(key("laptop"), registered_connector("session-1"));
        self.slices.insert(key(&tunnel.name), read(tunnel.slice()));
        self.gateway(tunnel.gateway()).route(tunnel.route())
    }

    pub(super) fn gateway(mut self, gateway: Value) -> Self {
        self.gateways.push(read(gateway));
        self
    }

    pub(super) fn route(mut self, route: Value) -> Self {
        self.routes.push(read(route));
        self
    }

    pub(super) fn claim(self, hostname: &str, namespace: &str, uid: &str) -> Self {
        self.claim_at(hostname, namespace, uid, "2026-01-01T00:00:00Z")
    }

    pub(super) fn claim_at(mut self, hostname: &str, namespace: &str, uid: &str, created: &str) -> Self {
        let claimant = Claimant {
            namespace: namespace.to_owned(),
            name: "x".to_owned(),
            uid: uid.to_owned(),
        };
        let created = created.to_owned();
        let claim = Claim { claimant, created };
        self.claims.insert(hostname.to_owned(), claim);
        self
    }
}

/// A Connector whose agent is there.
pub(super) fn registered_connector(session: &str) -> ConnectorInfo {
    let details = json!({
        "publicKey": { "id": id(), "addresses": [{ "address": "192.0.2.9", "port": 4433 }] },
        "session": session,
    });
    let details: ConnectionDetails = serde_json::from_value(details).expect("details");
    ConnectorInfo {
        uid: "u1".to_owned(),
        details: Some(details),
        released: false,
        gateway_listed: true,
    }
}

/// A Gateway without an HTTPProxy, and its route to a Connector.
pub(super) fn unowned_gateway(namespace: &str, name: &str, created: &str, hostname: &str) -> (Value, Value) {
    let meta = json!({
        "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
        "resourceVersion": "9", "creationTimestamp": created, "generation": 1,
    });
    let listener = json!({ "name": "http", "hostname": hostname, "port": 80, "protocol": "HTTP" });
    let gateway = json!({
        "metadata": meta, "spec": { "gatewayClassName": "aplomb", "listeners": [listener] },
    });
    let backend = json!({ "group": "aplomb.dev", "kind": "Connector", "name": "laptop", "port": 8080 });
    let route = json!({
        "metadata": meta,
        "spec": { "parentRefs": [{ "name": name }], "rules": [{ "backendRefs": [backend] }] },
    });
    (gateway, route)
}

impl RoutingTable {
    pub(super) fn host(&self, hostname: &str) -> Option<&VirtualHost> {
        self.hosts.get(hostname).map(|host| &**host)
    }
}

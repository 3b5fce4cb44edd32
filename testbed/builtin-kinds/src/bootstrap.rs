//! The objects a real server makes before anyone else writes.

use serde_json::{Value, json};

use super::data;
use super::value::{at, set, text};

/// Bodies to create, in order: the four namespaces, then the server's own service and its
/// endpoints. `address` and `port` are where the server listens.
#[must_use]
pub fn bootstrap(address: &str, port: u16) -> Vec<Value> {
    let namespaces = ["kube-system", "kube-public", "kube-node-lease", "default"];
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "kubernetes", "namespace": "default", "labels": labels },
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
    });
    namespaces
        .iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
        .chain([service, slice])
        .collect()
}

/// An object a server makes for itself, and the part of the server that does.
#[derive(Debug)]
pub struct Own {
    /// Who the fields belong to.
    pub manager: &'static str,
    /// The body to create.
    pub body: Value,
    /// The status to apply to it, and by whom.
    pub status: Option<(&'static str, Value)>,
}

const SERVER: &str = "kube-apiserver";

/// The rest of what a server makes before anyone else writes, for those who want to see a whole
/// cluster: roles and bindings, priority classes, flow schemas, API services. `now` is the moment
/// of the first start.
#[must_use]
pub fn cluster(address: &str, port: u16, now: &str) -> Vec<Own> {
    let recorded = data::cluster().into_iter().map(|body| own(body, now));
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": { "name": "kubernetes", "namespace": "default",
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } },
        "subsets": [{ "addresses": [{ "ip": address }],
            "ports": [{ "name": "https", "port": port, "protocol": "TCP" }] }],
    });
    let address = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": { "name": "10.0.0.1", "labels": { "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io" } },
        "spec": { "parentRef": { "group": "", "resource": "services", "namespace": "default",
            "name": "kubernetes" } },
    });
    let tracking = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": "kube-system",
            "name": "kube-apiserver-legacy-service-account-token-tracking" },
        "data": { "since": now.split('T').next().unwrap_or(now) },
    });
    let made = [endpoints, address, tracking].map(|body| own(body, now));
    recorded.chain(made).collect()
}

fn own(mut body: Value, now: &str) -> Own {
    let (manager, keeper) = match text(&body, &["kind"]) {
        "FlowSchema" | "PriorityLevelConfiguration" => (
            "api-priority-and-fairness-config-producer-v1",
            "api-priority-and-fairness-config-consumer-v1",
        ),
        "ServiceCIDR" => (SERVER, "kubernetes-service-cidr-controller"),
        _ => (SERVER, SERVER),
    };
    let mut status = at(&body, &["status"]).clone();
    set(&mut body, &["status"], Value::Null);
    for condition in super::value::items_mut(&mut status, &["conditions"]) {
        set(condition, &["lastTransitionTime"], now.into());
    }
    let status = status.is_object().then(|| {
        let name = at(&body, &["metadata", "name"]);
        let applied = json!({ "apiVersion": body["apiVersion"], "kind": body["kind"],
            "metadata": { "name": name }, "status": status });
        (keeper, applied)
    });
    Own { manager, body, status }
}

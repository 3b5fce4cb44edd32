//! The objects a real server makes before anyone else writes.

use serde_json::{Value, json};

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
        .map(
            |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        )
        .chain([service, slice])
        .collect()
}

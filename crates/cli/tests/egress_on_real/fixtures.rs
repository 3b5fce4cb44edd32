//! The objects of the cluster and the project: three nodes, their servers, one floating IP.

use serde_json::{Value, json};

/// A token in the provider's format, which must not appear anywhere.
pub(crate) const TOKEN: &str = "k3VtZ9wQ1nRb7yXc5LdJ0hPf8sGm2AuE6iTo4WvBqNzKxYjCrHgDlSpFMeUaOIty";
/// Its replacement.
pub(crate) const NEXT_TOKEN: &str = "Zm8QeR2tYu6Iw0PaS4dFg1HjK7lXc3VbN9nMq5WoErTkyUDiOxPsAhGfJzLvCwBH";

/// The nodes, with their servers.
pub(crate) const NODES: [(&str, u64); 3] = [("gateway-a", 101), ("gateway-b", 102), ("gateway-c", 103)];

/// The server of a node.
pub(crate) fn server_id(node: &str) -> u64 {
    let found = NODES.iter().find(|(name, _)| *name == node);
    found.map_or(0, |(_, server)| *server)
}

/// A candidate node, as a cloud controller manager leaves it.
pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "egress.aplomb.dev/candidate": "web" } },
        "spec": { "providerID": format!("hcloud://{}", server_id(name)) },
    })
}

/// The address of a node: loopback, one each.
pub(crate) fn node_address(name: &str) -> String {
    format!("127.0.0.{}", server_id(name))
}

/// The Ready condition that a kubelet writes.
pub(crate) fn ready_status(name: &str, status: &str) -> Value {
    let now = "2026-01-01T00:00:00Z";
    json!({ "status": {
        "conditions": [{
            "type": "Ready",
            "status": status,
            "reason": "Told",
            "message": "set by the test",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }],
        "addresses": [{ "type": "InternalIP", "address": node_address(name) }],
    } })
}

/// Cilium's kind, as far as needed for labels.
pub(crate) fn cilium_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "ciliumnodes.cilium.io" },
        "spec": {
            "group": "cilium.io",
            "scope": "Cluster",
            "names": {
                "kind": "CiliumNode",
                "listKind": "CiliumNodeList",
                "plural": "ciliumnodes",
                "singular": "ciliumnode",
            },
            "versions": [{
                "name": "v2",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

/// Cilium's object for a node.
pub(crate) fn cilium_node(name: &str) -> Value {
    json!({ "apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": { "name": name } })
}

/// The project at the start.
pub(crate) fn project() -> Value {
    let servers = NODES.map(|(name, id)| json!({ "id": id, "name": name }));
    json!({
        "servers": servers,
        "floating_ips": [{ "id": 1, "name": "web-egress", "ip": "192.0.2.10" }],
    })
}

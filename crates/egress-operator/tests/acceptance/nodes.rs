//! Nodes as kubelets and the cloud controller manager write them, and changes to them.

use std::net::IpAddr;

use aplomb_api::egress::labels::{CANDIDATE, GATEWAY};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Name of the node with this number; zero-padded, so that names sort like numbers.
pub fn name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Its server ID.
pub fn server(number: usize) -> u64 {
    1_000 + u64::try_from(number).expect("a cluster is not that large")
}

/// Its address.
pub fn address(number: usize) -> IpAddr {
    let (high, low) = (number / 250, number % 250 + 1);
    format!("10.0.{high}.{low}").parse().expect("an address")
}

/// A node that has been Ready for a while; a candidate for `egress` if set.
pub fn node(number: usize, egress: Option<&str>) -> Value {
    let name = name(number);
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason,
            "message": format!("kubelet has reported {reason}"),
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "metadata": { "name": name, "labels": egress.map(|egress| json!({ CANDIDATE: egress })) },
        "spec": { "providerID": format!("hcloud://{}", server(number)) },
        "status": {
            "addresses": [
                { "type": "Hostname", "address": name },
                { "type": "InternalIP", "address": address(number) },
            ],
            "capacity": { "cpu": "4", "memory": "8024552Ki", "pods": "110" },
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
        },
    })
}

/// Changes nodes as a person or the control plane does.
#[derive(Clone)]
pub struct Nodes(Api<Node>);

impl Nodes {
    pub fn new(client: Client) -> Self {
        Self(Api::all(client))
    }

    /// Makes a node, status and all.
    pub async fn create(&self, node: &Value) {
        let made: Node = serde_json::from_value(node.clone()).expect("a node");
        self.0.create(&PostParams::default(), &made).await.unwrap();
    }

    async fn patch(&self, number: usize, patch: &Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        self.0.patch(&name(number), &params, &patch).await.unwrap();
    }

    pub async fn cordon(&self, number: usize, cordoned: bool) {
        self.patch(number, &json!({ "spec": { "unschedulable": cordoned } }))
            .await;
    }

    /// Sets or removes a label.
    pub async fn label(&self, number: usize, key: &str, value: Option<&str>) {
        self.patch(number, &json!({ "metadata": { "labels": { key: value } } }))
            .await;
    }

    pub async fn remove_candidate_label(&self, number: usize) {
        self.label(number, CANDIDATE, None).await;
    }

    pub async fn remove_gateway_label(&self, number: usize) {
        self.label(number, GATEWAY, None).await;
    }

    /// Sets its Ready condition: `True`, `False` or `Unknown`.
    pub async fn set_ready(&self, number: usize, status: &str) {
        let mut conditions = node(number, None)["status"]["conditions"].clone();
        conditions[3]["status"] = status.into();
        let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
        let params = PatchParams::default();
        let patched = self.0.patch_status(&name(number), &params, &patch).await;
        patched.unwrap();
    }

    pub async fn delete(&self, number: usize) {
        let params = DeleteParams::default();
        self.0.delete(&name(number), &params).await.unwrap();
    }

    /// Deletes it while a finalizer of another controller keeps it.
    pub async fn terminate(&self, number: usize) {
        let keep = json!({ "metadata": { "finalizers": ["example.com/keep"] } });
        self.patch(number, &keep).await;
        self.delete(number).await;
    }
}

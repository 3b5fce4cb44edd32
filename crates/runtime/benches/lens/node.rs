//! A Node as in a cloud provider's cluster: images, conditions, managed fields, about 9 KB.

use aplomb::{MetaRef, View, ViewMeta};
use k8s_openapi::api::core::v1;
use serde_json::{Value, json};

/// The fields of a Node for an operator that moves addresses between nodes.
#[derive(PartialEq, serde::Deserialize)]
pub(crate) struct NodeView {
    metadata: ViewMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    unschedulable: bool,
    #[serde(rename = "providerID")]
    provider_id: Option<Box<str>>,
}

#[derive(Default, PartialEq, serde::Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Box<[Condition]>,
    #[serde(default)]
    addresses: Box<[Address]>,
}

#[derive(PartialEq, serde::Deserialize)]
struct Condition {
    r#type: Box<str>,
    status: Truth,
}

#[derive(PartialEq, serde::Deserialize)]
enum Truth {
    True,
    False,
    Unknown,
}

#[derive(PartialEq, serde::Deserialize)]
struct Address {
    r#type: Box<str>,
    address: Box<str>,
}

impl View for NodeView {
    type Kind = v1::Node;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl NodeView {
    /// The lens: all fields of the view except the metadata, which changes with every heartbeat.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.spec == other.spec && self.status == other.status
    }
}

/// Writes nodes without building each from its parts, which would fragment the measured heap.
pub(crate) struct Writer(String);

const NUMBER: &str = "00000";
const VERSION: &str = "99999999";
const BEAT: &str = "00:00Z";

impl Writer {
    pub(crate) fn new() -> Self {
        Self(node().to_string())
    }

    /// The node with this number at this version; the time of its heartbeat is derived from the version.
    pub(crate) fn write(&self, number: usize, version: u64) -> String {
        let beat = format!("{:02}:{:02}Z", version / 60 % 60, version % 60);
        let text = self.0.replace(NUMBER, &format!("{number:05}"));
        text.replace(VERSION, &version.to_string()).replace(BEAT, &beat)
    }
}

fn node() -> Value {
    let number = NUMBER;
    let name = format!("worker-{number}.cluster.example.com");
    let beat = format!("2026-11-15T09:{BEAT}");
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": format!("0c9a1f5e-7d3b-4c28-9f61-ab1f4e7{number}"),
            "resourceVersion": VERSION,
            "creationTimestamp": "2026-03-02T07:11:43Z",
            "labels": labels(&name),
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "csi.volume.kubernetes.io/nodeid": format!("{{\"csi.example.com\":\"{number}\"}}"),
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": managed_fields(&beat),
        },
        "spec": {
            "podCIDR": "198.51.100.0/24",
            "podCIDRs": ["198.51.100.0/24"],
            "providerID": format!("cloud://{number}"),
        },
        "status": status(&name, &beat),
    })
}

fn labels(name: &str) -> Value {
    json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "std41",
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "reg1",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "std41",
        "topology.kubernetes.io/region": "reg1",
        "topology.kubernetes.io/zone": "reg1-dc14",
    })
}

fn status(name: &str, beat: &str) -> Value {
    let resources = json!({
        "cpu": "8", "ephemeral-storage": "234437452Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "memory": "15988088Ki", "pods": "110",
    });
    json!({
        "addresses": [
            { "type": "Hostname", "address": name },
            { "type": "InternalIP", "address": "192.0.2.17" },
            { "type": "ExternalIP", "address": "203.0.113.17" },
        ],
        "allocatable": resources,
        "capacity": resources,
        "conditions": conditions(beat),
        "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
        "images": (0..25).map(image).collect::<Vec<_>>(),
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "58ce1bc0-13d9-4c0c-8a1f-0a1ce9d6a1b9",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12.31",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.4",
            "machineID": "3c1ff2a3d0a54bd4a8d4d0b1cbd5c2f8",
            "operatingSystem": "linux",
            "osImage": "Debian GNU/Linux 13 (trixie)",
            "systemUUID": "3c1ff2a3-d0a5-4bd4-a8d4-d0b1cbd5c2f8",
        },
    })
}

fn conditions(beat: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": beat, "lastTransitionTime": "2026-03-02T07:12:03Z",
        })
    };
    json!([
        condition(
            "NetworkUnavailable",
            "False",
            "CiliumIsUp",
            "Cilium is running on this node"
        ),
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

fn image(number: u64) -> Value {
    let name = format!("registry.example.com/platform/component-{number:02}");
    let digest = format!(
        "{:064x}",
        u128::from(number + 1) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835
    );
    json!({
        "names": [format!("{name}@sha256:{digest}"), format!("{name}:v1.{number}.0")],
        "sizeBytes": 31_415_926 + number,
    })
}

fn managed_fields(beat: &str) -> Value {
    let names = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
    let fields = json!({ ".": {}, "f:lastHeartbeatTime": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {} });
    let conditions: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| (format!("k:{{\"type\":\"{name}\"}}"), fields.clone()))
        .collect();
    json!([
        { "manager": "cloud-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-03-02T07:11:49Z", "fieldsType": "FieldsV1",
          "fieldsV1": { "f:spec": { "f:providerID": {} }, "f:metadata": { "f:labels": { "f:topology.kubernetes.io/region": {}, "f:topology.kubernetes.io/zone": {} } } } },
        { "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": beat, "fieldsType": "FieldsV1", "subresource": "status",
          "fieldsV1": { "f:status": { "f:allocatable": { "f:memory": {} }, "f:conditions": conditions, "f:images": {}, "f:nodeInfo": { "f:bootID": {} } } } },
    ])
}

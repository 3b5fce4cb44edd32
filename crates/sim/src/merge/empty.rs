//! Built-in kinds with nothing set: the fields Go's types never leave out.
//!
//! A create is compared with this object, so what it holds already is nobody's.

use serde_json::{Value, json};

/// An empty object of a built-in kind, without `apiVersion` and `kind`.
pub(super) fn object(api_version: &str, kind: &str) -> Value {
    let rest = match (api_version, kind) {
        ("v1", "Event") => json!({
            "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        }),
        ("events.k8s.io/v1", "Event") => json!({
            "eventTime": null, "regarding": {}, "deprecatedSource": {},
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        }),
        (_, "Namespace" | "ValidatingAdmissionPolicy") => json!({"spec": {}, "status": {}}),
        (_, "Lease" | "ValidatingAdmissionPolicyBinding") => json!({"spec": {}}),
        (_, "Node") => json!({"spec": {}, "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "", "architecture": "",
            },
        }}),
        (_, "Pod") => json!({"spec": {"containers": null}, "status": {}}),
        (_, "PersistentVolumeClaim") => json!({"spec": {"resources": {}}, "status": {}}),
        (_, "Service") => json!({"spec": {}, "status": {"loadBalancer": {}}}),
        (_, "Deployment") => {
            json!({"spec": {"selector": null, "template": template(), "strategy": {}}, "status": {}})
        }
        (_, "ReplicaSet") => {
            json!({"spec": {"selector": null, "template": template()}, "status": {"replicas": 0}})
        }
        (_, "EndpointSlice") => json!({"addressType": "", "endpoints": null, "ports": null}),
        (_, "NetworkPolicy") => json!({"spec": {"podSelector": {}}}),
        (_, "PodDisruptionBudget") => json!({"spec": {}, "status": {
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        }}),
        (_, "Role" | "ClusterRole") => json!({"rules": null}),
        (_, "RoleBinding" | "ClusterRoleBinding") => {
            json!({"roleRef": {"apiGroup": "", "kind": "", "name": ""}})
        }
        (_, "CustomResourceDefinition") => json!({
            "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": null},
            "status": {
                "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null,
            },
        }),
        _ => json!({}),
    };
    let mut object = rest;
    object["metadata"] = json!({});
    object
}

fn template() -> Value {
    json!({"metadata": {}, "spec": {"containers": null}})
}

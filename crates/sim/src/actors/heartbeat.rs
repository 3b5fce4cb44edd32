//! Node heartbeats: what the kubelets of a quiet cluster write.
//!
//! Every interval, for each node: its lease is renewed and the heartbeat of its conditions moves.
//! Nothing else about the node changes, which is what makes these writes noise to an operator.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::door::Door;
use crate::call::Verb;
use crate::object;
use crate::server::ApiServer;
use crate::status::{ApiError, GroupResource};
use crate::store::Key;

const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: u32 = 40;

/// Beats until dropped.
pub(super) async fn run(server: ApiServer, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for node in server.list("", "nodes") {
            let name = object::name(&node);
            let door = Door::kubelet(&server, name);
            let beats = [renew_lease(&door, &node).await, beat(&door, &node).await];
            for error in beats.into_iter().filter_map(Result::err) {
                tracing::debug!(node = name, %error, "Heartbeat failed, the next one will do");
            }
        }
    }
}

async fn renew_lease(door: &Door, node: &Value) -> Result<(), ApiError> {
    let leases = GroupResource::new("coordination.k8s.io", "leases");
    let name = object::name(node);
    let resource = door.server.any_version(&leases.group, &leases.resource);
    let resource = resource.ok_or_else(|| ApiError::not_found(&leases, name))?;
    let mut key = Key {
        resource: resource.storage.clone(),
        namespace: LEASE_NAMESPACE.to_owned(),
        name: name.to_owned(),
    };
    let now = door
        .server
        .clock()
        .now()
        .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
        .to_string();
    if door.server.store().get(&key).is_some() {
        return door
            .merge(&resource, &key, &json!({ "spec": { "renewTime": now } }))
            .await;
    }
    let owner =
        json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": object::uid(node) });
    let lease = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "metadata": { "name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner] },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now },
    });
    key.name = String::new();
    door.send(door.call(Verb::Create, &resource, &key).body(&lease))
        .await
}

/// Moves the heartbeat of every condition; a node without conditions becomes Ready.
async fn beat(door: &Door, node: &Value) -> Result<(), ApiError> {
    let nodes = GroupResource::new("", "nodes");
    let name = object::name(node);
    let resource = door.server.any_version("", "nodes");
    let resource = resource.ok_or_else(|| ApiError::not_found(&nodes, name))?;
    let now = door.server.clock().now_seconds();
    let old = node.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = old.cloned().unwrap_or_default();
    if conditions.is_empty() {
        conditions.push(json!({
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }));
    }
    for condition in &mut conditions {
        condition["lastHeartbeatTime"] = now.as_str().into();
    }
    let key = Key {
        resource: nodes,
        namespace: String::new(),
        name: name.to_owned(),
    };
    let patch = json!({ "status": { "conditions": conditions } });
    door.merge_status(&resource, &key, &patch).await
}

//! Node heartbeats: what the kubelets of a quiet cluster write.
//!
//! Every interval, for each node: its lease is renewed and the heartbeat of its conditions moves.
//! Nothing else about the node changes, which is what makes these writes noise to an operator.
//! Kubelets are not in step: each has its own moment within the interval.

mod touch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::call::Verb;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Key;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use self::touch::Touch;
use super::system_client::SystemClient;

const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: u32 = 40;

/// How many moments an interval has.
const MOMENTS: u32 = 100;

/// Beats until dropped.
pub(super) async fn run(server: ApiServer, every: Duration) {
    let mut ticks = interval((every / MOMENTS).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut kubelets = Kubelets {
        server,
        known: BTreeMap::new(),
    };
    for moment in (0..MOMENTS).cycle() {
        ticks.tick().await;
        kubelets.beat(moment).await;
    }
}

/// Every kubelet of the cluster.
struct Kubelets {
    server: ApiServer,
    /// Which nodes beat at which moment, as it was when the interval began.
    known: BTreeMap<u32, Vec<Kubelet>>,
}

struct Kubelet {
    door: SystemClient,
    node: Touch,
    lease: Touch,
}

impl Kubelets {
    async fn beat(&mut self, moment: u32) {
        if moment == 0 {
            self.look();
        }
        for kubelet in self.known.entry(moment).or_default() {
            let beats = [kubelet.renew_lease().await, kubelet.beat().await];
            for error in beats.into_iter().filter_map(Result::err) {
                let node = &kubelet.node.key.name;
                tracing::debug!(node, %error, "Heartbeat failed, the next one will do");
            }
        }
    }

    /// A kubelet for each node that there is; those of nodes that are gone end.
    fn look(&mut self) {
        let mut before: BTreeMap<String, Kubelet> = std::mem::take(&mut self.known)
            .into_values()
            .flatten()
            .map(|kubelet| (kubelet.node.key.name.clone(), kubelet))
            .collect();
        let nodes = self.server.list("", "nodes");
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX).max(1);
        for (place, node) in (0..count).zip(&nodes) {
            let name = object::name(node);
            let kubelet = before.remove(name).unwrap_or_else(|| Kubelet::new(&self.server, name));
            let moment = u64::from(place) * u64::from(MOMENTS) / u64::from(count);
            let moment = u32::try_from(moment).unwrap_or_default();
            self.known.entry(moment).or_default().push(kubelet);
        }
    }
}

impl Kubelet {
    fn new(server: &ApiServer, node: &str) -> Self {
        let key = |group: &str, resource: &str, namespace: &str| Key {
            resource: GroupResource::new(group, resource),
            namespace: namespace.to_owned(),
            name: node.to_owned(),
        };
        Self {
            door: SystemClient::kubelet(server, node),
            node: Touch::new(key("", "nodes", "")),
            lease: Touch::new(key("coordination.k8s.io", "leases", LEASE_NAMESPACE)),
        }
    }

    async fn renew_lease(&mut self) -> Result<(), ApiError> {
        let server = &self.door.server;
        let now = server.clock().now();
        let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let renewed = |lease: &mut Value| lease["spec"]["renewTime"] = now.as_str().into();
        if self.lease.again(server, renewed) {
            return Ok(());
        }
        let key = self.lease.key.clone();
        let resource = resource(server, &key)?;
        if server.store().get(&key).is_some() {
            let renewal = json!({ "spec": { "renewTime": now } });
            self.door.merge(&resource, &key, &renewal).await?;
            self.lease.written(server);
            return Ok(());
        }
        let Some(node) = server.store().get(&self.node.key) else {
            return Ok(());
        };
        self.create_lease(&resource, &node, &now).await
    }

    async fn create_lease(&self, resource: &Arc<Resource>, node: &Value, now: &str) -> Result<(), ApiError> {
        let name = object::name(node);
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": object::uid(node) });
        let lease = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": { "name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner] },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now },
        });
        let mut key = self.lease.key.clone();
        key.name = String::new();
        let call = self.door.call(Verb::Create, resource, &key);
        self.door.send(call.body(&lease)).await
    }

    /// Moves the heartbeat of every condition; a node without conditions becomes Ready.
    async fn beat(&mut self) -> Result<(), ApiError> {
        let server = &self.door.server;
        let now = server.clock().now_seconds();
        let beaten = |node: &mut Value| move_heartbeats(&mut node["status"]["conditions"], &now);
        if self.node.again(server, beaten) {
            return Ok(());
        }
        let key = self.node.key.clone();
        let resource = resource(server, &key)?;
        let Some(node) = server.store().get(&key) else {
            return Ok(());
        };
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
        let mut conditions = conditions.into();
        move_heartbeats(&mut conditions, &now);
        let patch = json!({ "status": { "conditions": conditions } });
        self.door.merge_status(&resource, &key, &patch).await?;
        self.node.written(server);
        Ok(())
    }
}

fn resource(server: &ApiServer, key: &Key) -> Result<Arc<Resource>, ApiError> {
    let found = server.any_version(&key.resource.group, &key.resource.resource);
    found.ok_or_else(|| ApiError::not_found(&key.resource, &key.name))
}

fn move_heartbeats(conditions: &mut Value, now: &str) {
    for condition in conditions.as_array_mut().into_iter().flatten() {
        condition["lastHeartbeatTime"] = now.into();
    }
}

#[cfg(test)]
mod tests {
    use aplomb_apimachinery::clock::Clock;
    use jiff::Timestamp;
    use tokio::time::advance;

    use super::*;

    /// What three beats leave behind, with or without the short way.
    async fn three_beats(short: bool) -> (Vec<Arc<Value>>, u64) {
        let server = ApiServer::builder().clock(Clock::new(Timestamp::UNIX_EPOCH, 7)).build();
        let door = SystemClient::kubelet(&server, "user");
        let nodes = server.any_version("", "nodes").expect("nodes are served");
        let key = Key {
            resource: nodes.storage.clone(),
            namespace: String::new(),
            name: String::new(),
        };
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": { "a": "b" } },
            "spec": { "providerID": "hcloud://1" },
        });
        let mut create = door.call(Verb::Create, &nodes, &key).body(&node);
        create.user_agent = "user".to_owned();
        door.send(create).await.expect("a node");
        let mut kubelet = Kubelet::new(&server, "n");
        let before = server.store().revision();
        for _ in 0..3 {
            advance(Duration::from_secs(10)).await;
            if !short {
                kubelet.node = Touch::new(kubelet.node.key.clone());
                kubelet.lease = Touch::new(kubelet.lease.key.clone());
            }
            kubelet.renew_lease().await.expect("a lease");
            kubelet.beat().await.expect("a beat");
        }
        let mut objects = server.list("", "nodes");
        objects.extend(server.list("coordination.k8s.io", "leases"));
        (objects, server.store().revision() - before)
    }

    #[tokio::test(start_paused = true)]
    async fn the_short_way_stores_what_the_verbs_would_have() {
        let (short, long) = (three_beats(true).await, three_beats(false).await);
        assert_eq!(short, long);
        assert_eq!(short.1, 6, "each beat is two writes");
        assert!(short.0[0]["status"]["conditions"][0]["lastHeartbeatTime"] == "1970-01-01T00:00:30Z");
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_else_wrote_is_not_undone() {
        let server = ApiServer::builder().build();
        let door = SystemClient::kubelet(&server, "user");
        let nodes = server.any_version("", "nodes").expect("nodes are served");
        let mut kubelet = Kubelet::new(&server, "n");
        let mut place = kubelet.node.key.clone();
        place.name = String::new();
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
        let create = door.call(Verb::Create, &nodes, &place).body(&node);
        door.send(create).await.expect("a node");
        for cordoned in [false, true, true] {
            advance(Duration::from_secs(10)).await;
            let cordon = json!({ "spec": { "unschedulable": cordoned } });
            let key = kubelet.node.key.clone();
            door.merge(&nodes, &key, &cordon).await.expect("a cordon");
            kubelet.beat().await.expect("a beat");
            let stored = server.store().get(&key).expect("it is there");
            assert_eq!(stored["spec"]["unschedulable"] == true, cordoned);
        }
    }
}

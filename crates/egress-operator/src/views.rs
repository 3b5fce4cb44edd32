//! The few fields of foreign objects that the operator reads. All others are skipped while decoding, so no decision can
//! depend on them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use aplomb::{MetaRef, MetadataOnly, View, ViewMeta};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::egress::NodeReady;

pub(crate) type LabelMap = BTreeMap<String, String>;

pub(crate) trait HasLabels: View + Serialize {
    fn labels(&self) -> &LabelMap;
}

impl HasLabels for NodeView {
    fn labels(&self) -> &LabelMap {
        &self.metadata.labels
    }
}

impl HasLabels for CiliumNodeView {
    fn labels(&self) -> &LabelMap {
        &self.metadata.labels
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeView {
    pub(crate) metadata: ViewMeta<LabelMap>,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSpec {
    #[serde(rename = "providerID")]
    provider_id: Option<Box<str>>,
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Vec<ConditionView>,
    addresses: Vec<AddressView>,
}

/// A condition without its times: heartbeats change only those.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ConditionView {
    #[serde(rename = "type")]
    kind: Box<str>,
    #[serde(default)]
    status: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct AddressView {
    #[serde(rename = "type")]
    kind: Box<str>,
    #[serde(default)]
    address: Box<str>,
}

impl View for NodeView {
    type Kind = Node;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl NodeView {
    pub(crate) fn name(&self) -> &str {
        self.metadata.as_ref().name
    }

    /// Its server ID at the provider, from `hcloud://<integer>` as the cloud controller manager writes it.
    pub(crate) fn server_id(&self) -> Option<i64> {
        let id = self.spec.provider_id.as_deref()?.strip_prefix("hcloud://")?;
        id.parse().ok().filter(|id| *id > 0)
    }

    pub(crate) fn cordoned(&self) -> bool {
        self.spec.unschedulable
    }

    pub(crate) fn ready(&self) -> NodeReady {
        ready_condition(&self.status.conditions)
    }

    /// Its addresses to probe: internal addresses first.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let all = self.status.addresses.iter();
        crate::probe::dial_addresses(all.map(|it| (&*it.kind, &*it.address)))
    }

    /// Whether it equals `other` in all but addresses and labels, for the election.
    pub(crate) fn same_for_election(&self, other: &Self) -> bool {
        self.ready() == other.ready()
            && self.cordoned() == other.cordoned()
            && self.spec.provider_id == other.spec.provider_id
    }
}

fn ready_condition(conditions: &[ConditionView]) -> NodeReady {
    let ready = conditions.iter().find(|it| &*it.kind == "Ready");
    match ready.map(|condition| &*condition.status) {
        Some("True") => NodeReady::True,
        Some("False") => NodeReady::False,
        _ => NodeReady::Unknown,
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct PodView {
    pub(crate) metadata: ViewMeta<LabelMap>,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct PodStatus {
    conditions: Vec<ConditionView>,
}

impl View for PodView {
    type Kind = Pod;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl PodView {
    /// The node it runs on, if it is Ready.
    pub(crate) fn ready_on(&self) -> Option<&str> {
        let alive = !self.metadata.as_ref().deleting;
        let ready = ready_condition(&self.status.conditions) == NodeReady::True;
        self.spec.node_name.as_deref().filter(|_| alive && ready)
    }
}

/// A Secret. Not `Debug`: its values must not be printed.
#[derive(Clone, PartialEq, Deserialize)]
pub(crate) struct TokenSecretView {
    pub(crate) metadata: ViewMeta,
    #[serde(default)]
    data: BTreeMap<String, k8s_openapi::ByteString>,
}

impl View for TokenSecretView {
    type Kind = Secret;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl TokenSecretView {
    pub(crate) fn value(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).map(|value| value.0.as_slice())
    }

    pub(crate) fn same_data(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

/// The kind `CiliumNode` of `cilium.io/v2`. Only its metadata is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct CiliumNode(ObjectMeta);

impl Resource for CiliumNode {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "CiliumNode".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "cilium.io".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v2".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "ciliumnodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

/// Name and labels of a CiliumNode.
pub(crate) type CiliumNodeView = MetadataOnly<CiliumNode, LabelMap>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(provider_id: &str) -> NodeView {
        let node = json!({
            "metadata": {"name": "worker"},
            "spec": {"providerID": provider_id},
            "status": {
                "addresses": [
                    {"type": "ExternalIP", "address": "203.0.113.9"},
                    {"type": "Hostname", "address": "worker"},
                    {"type": "InternalIP", "address": "192.0.2.9"},
                ],
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "x"}],
            },
        });
        serde_json::from_value(node).expect("a node")
    }

    #[test]
    fn a_server_is_known_by_its_provider_id() {
        assert_eq!(node("hcloud://141082942").server_id(), Some(141_082_942));
        for other in ["", "aws:///eu/i-1", "hcloud://", "hcloud://bm-7", "hcloud://-1"] {
            assert_eq!(node(other).server_id(), None, "{other}");
        }
    }

    #[test]
    fn internal_addresses_come_first_and_names_are_none() {
        let addresses: Vec<_> = node("").addresses().iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["192.0.2.9", "203.0.113.9"]);
        assert_eq!(node("").ready(), NodeReady::True);
    }

    /// Reads `object` with each of its lists and maps null in turn.
    fn reads_nulls<V: View>(mut object: serde_json::Value) {
        object["metadata"] = json!({ "name": "x", "finalizers": ["f"], "labels": { "a": "b" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "o", "uid": "u" }] });
        for (path, object) in aplomb::nulls::null_variants(&object) {
            let read = aplomb::nulls::read::<V>(&object);
            assert!(read.is_ok_and(|it| it.meta().name == "x"), "{path}");
        }
    }

    #[test]
    fn a_list_or_map_that_is_null_is_empty_in_every_view() {
        let conditions = json!([{ "type": "Ready", "status": "True" }]);
        reads_nulls::<NodeView>(json!({ "spec": { "providerID": "hcloud://1" }, "status": {
            "conditions": conditions,
            "addresses": [{ "type": "InternalIP", "address": "192.0.2.9" }] } }));
        reads_nulls::<PodView>(json!({ "spec": { "nodeName": "a" },
            "status": { "conditions": conditions } }));
        reads_nulls::<TokenSecretView>(json!({ "data": { "token": "YQ==" } }));
        reads_nulls::<CiliumNodeView>(json!({}));
    }
}

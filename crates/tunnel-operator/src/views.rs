//! Views of the kinds that are watched but not written: only the fields that are used, so that nothing comes
//! to depend on the others.

use aplomb::{MetaRef, View, ViewMeta};
use aplomb_api::tunnel::{ConnectionDetails, Connector, conditions};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;

/// A Connector: how it is reached, and whether it is online.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ConnectorView {
    pub(crate) metadata: ViewMeta,
    #[serde(default)]
    pub(crate) status: ConnectorFields,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConnectorFields {
    pub(crate) connection_details: Option<ConnectionDetails>,
    conditions: Vec<ConditionFields>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ConditionFields {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

impl View for ConnectorView {
    type Kind = Connector;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl ConnectorView {
    pub(crate) fn online_condition(&self) -> Option<(bool, String, String)> {
        let mut all = self.status.conditions.iter();
        let online = all.find(|it| it.kind == conditions::ONLINE)?;
        let (reason, message) = (online.reason.clone(), online.message.clone());
        Some((online.status == "True", reason, message))
    }

    pub(crate) fn tunnel_inputs(&self) -> impl PartialEq + use<> {
        (self.status.connection_details.clone(), self.online_condition())
    }
}

/// The fields read of a Lease. Clusters have many more Leases than Connectors, so this view is kept small.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct LeaseView {
    pub(crate) metadata: ViewMeta,
    #[serde(default)]
    pub(crate) spec: LeaseFields,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseFields {
    pub(crate) holder_identity: Option<String>,
    pub(crate) lease_duration_seconds: Option<i32>,
    pub(crate) renew_time: Option<MicroTime>,
}

impl View for LeaseView {
    type Kind = Lease;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_or_map_that_is_null_is_empty_in_every_view() {
        let metadata = json!({ "name": "x", "finalizers": ["f"], "labels": { "a": "b" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "o", "uid": "u" }] });
        let connector = json!({ "metadata": metadata, "status": {
            "connectionDetails": { "publicKey": { "id": "ab",
                "addresses": [{ "address": "192.0.2.1", "port": 1 }] }, "session": "s" },
            "conditions": [{ "type": "Online" }] } });
        for (path, object) in aplomb::nulls::null_variants(&connector) {
            let read = aplomb::nulls::read::<ConnectorView>(&object);
            // Connection details without a key are incomplete.
            let whole = path != "/status/connectionDetails/publicKey";
            assert!(read.is_ok() == whole, "{path}");
        }
        let lease = json!({ "metadata": metadata, "spec": { "holderIdentity": "a" } });
        for (path, object) in aplomb::nulls::null_variants(&lease) {
            let read = aplomb::nulls::read::<LeaseView>(&object);
            assert!(read.is_ok(), "{path}");
        }
    }
}

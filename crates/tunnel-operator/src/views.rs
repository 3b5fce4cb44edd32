//! Views of the kinds that are watched but not written: only the fields that are used, so that nothing comes
//! to depend on the others.

use aplomb::{MetaRef, View, ViewMeta};
use aplomb_api::tunnel::{ConnectionDetails, Connector, conditions};
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
    /// Its `Online` condition, if set.
    pub(crate) fn online_condition(&self) -> Option<(bool, String, String)> {
        let mut all = self.status.conditions.iter();
        let online = all.find(|it| it.kind == conditions::ONLINE)?;
        let (reason, message) = (online.reason.clone(), online.message.clone());
        Some((online.status == "True", reason, message))
    }

    /// The fields that a tunnel reads.
    pub(crate) fn tunnel_inputs(&self) -> impl PartialEq + use<> {
        (self.status.connection_details.clone(), self.online_condition())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::heartbeat::LeaseView;

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

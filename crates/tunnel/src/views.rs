//! What is read of the kinds that are watched and not written: a few fields each, so that nothing can
//! come to depend on the rest.

use aplomb::{Meta, MetaRef, View};
use aplomb_api::tunnel::{ConnectionDetails, Connector, conditions};
use serde::Deserialize;

/// A Connector: how it is reached, and whether it is online.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ConnectorView {
    pub(crate) metadata: Meta,
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
    /// Its `Online` condition, once it was judged.
    pub(crate) fn online(&self) -> Option<(bool, String, String)> {
        let mut all = self.status.conditions.iter();
        let online = all.find(|it| it.kind == conditions::ONLINE)?;
        let (reason, message) = (online.reason.clone(), online.message.clone());
        Some((online.status == "True", reason, message))
    }

    /// What a tunnel reads of it.
    pub(crate) fn read(&self) -> impl PartialEq + use<> {
        (self.status.connection_details.clone(), self.online())
    }
}

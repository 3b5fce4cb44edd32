//! Every kind of Aplomb's operators, with its conditions and reasons. No IO and no decisions: the meaning of
//! a field is in its description, its effect in the operator.
#![forbid(unsafe_code)]

pub mod coder;
pub mod duration;
pub mod egress;
pub mod gateway_api;
mod schema_util;
pub mod tunnel;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use coder::{CoderProvisioner, CoderWorkspaceProxy};
pub use duration::DurationString;
pub use egress::{StableEgress, StableEgressSpec, StableEgressStatus};
pub use tunnel::{Connector, ConnectorClass, GatewayReplica, HostnameClaim, HttpProxy};

/// The definitions of the Coder operator's kinds.
#[must_use]
pub fn coder_definitions() -> Vec<CustomResourceDefinition> {
    vec![CoderProvisioner::crd(), CoderWorkspaceProxy::crd()]
}

/// The definition of the egress operator's kind.
#[must_use]
pub fn egress_definitions() -> Vec<CustomResourceDefinition> {
    vec![StableEgress::crd()]
}

/// The definitions of the kinds of tunnels, in the order of their names.
#[must_use]
pub fn tunnel_definitions() -> Vec<CustomResourceDefinition> {
    vec![
        ConnectorClass::crd(),
        Connector::crd(),
        GatewayReplica::crd(),
        HostnameClaim::crd(),
        HttpProxy::crd(),
    ]
}

/// The definitions of all our kinds.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    [coder_definitions(), tunnel_definitions(), egress_definitions()].concat()
}

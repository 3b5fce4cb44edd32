//! Every kind of Aplomb's operators, with its conditions and reasons. No IO and no decisions: the meaning of a field is in
//! its description, its effect in the operator.
#![forbid(unsafe_code)]
#![allow(
    unreachable_pub,
    clippy::duplicated_attributes,
    reason = "KubeSchema copies a struct into a function, pub and all, and columns share types"
)]

pub mod coder;
pub mod duration;
pub mod egress;
pub mod gateway_api;
pub mod operators;
mod schema_util;
pub mod tunnel;

pub use coder::{CoderProvisioner, CoderWorkspaceProxy};
pub use duration::DurationString;
pub use egress::{StableEgress, StableEgressSpec, StableEgressStatus};
pub use operators::{coder_definitions, definitions, egress_definitions, tunnel_definitions};
pub use tunnel::{Connector, ConnectorClass, GatewayReplica, HostnameClaim, HttpProxy};

/// Bytes in lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

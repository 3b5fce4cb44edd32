//! The operator of HTTPProxy and Connector: from `kubectl apply` to proven traffic. It writes the children,
//! decides whether connectors are online and proves tunnels through the gateways. It does not carry traffic.
#![forbid(unsafe_code)]

mod classes;
mod connector;
mod context;
mod gc;
mod heartbeat;
mod httpproxy;
mod operator;
mod probe;
mod state;
mod telemetry;
mod views;

pub use operator::{TunnelDeps, TunnelSettings, operator, run};
pub use probe::client::{HttpProbeClient, ProbeClient, ProbeError, ProbeRequest, ProbeResponse, build_request};
pub use telemetry::TunnelMetrics;

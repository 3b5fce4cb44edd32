//! The operator of HTTPProxy and Connector: from `kubectl apply` to proven traffic. It writes the
//! children, judges connectors and proves tunnels through the gateways; it carries no traffic itself.
#![forbid(unsafe_code)]

mod liveness;
mod pulse;
mod sessions;

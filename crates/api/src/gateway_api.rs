//! The kinds of the Gateway API that tunnels are made of, generated from its own definitions (standard
//! channel, in `gateway-api/` with their licence). Nothing here is written by hand but this list.
#![allow(
    missing_debug_implementations,
    clippy::all,
    unreachable_pub,
    reason = "generated: it is held to its source, not to this house"
)]

#[rustfmt::skip]
pub mod gatewayclasses;
#[rustfmt::skip]
pub mod gateways;
#[rustfmt::skip]
pub mod httproutes;

pub use gatewayclasses::GatewayClass;
pub use gateways::Gateway;
pub use httproutes::HttpRoute;

//! The kinds of the Gateway API that tunnels are made of, generated from its own definitions (standard
//! channel, in `gateway-api/` with their licence). `make gateway-api`
//! makes them anew. Nothing in the modules below is written by hand.
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

/// The annotation with which the Gateway API's definitions say their version.
pub const BUNDLE_VERSION: &str = "gateway.networking.k8s.io/bundle-version";
/// The annotation with which they say their channel.
pub const CHANNEL: &str = "gateway.networking.k8s.io/channel";

/// Their definitions as published, by plural, in the order of their names.
pub const DEFINITIONS: [(&str, &str); 3] = [
    (
        "gatewayclasses",
        include_str!("../gateway-api/gatewayclasses.yaml"),
    ),
    ("gateways", include_str!("../gateway-api/gateways.yaml")),
    ("httproutes", include_str!("../gateway-api/httproutes.yaml")),
];

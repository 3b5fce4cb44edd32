//! The kinds of the Gateway API that tunnels use, generated from its published definitions (standard channel, in
//! `gateway-api/` with their license) by `make gateway-api`. Do not edit the modules below by hand.
#![allow(
    missing_debug_implementations,
    clippy::all,
    reason = "generated code is not held to the style of this workspace"
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

/// The annotation that holds the version of the Gateway API's definitions.
pub const BUNDLE_VERSION: &str = "gateway.networking.k8s.io/bundle-version";
/// The annotation that holds their channel.
pub const CHANNEL: &str = "gateway.networking.k8s.io/channel";

/// Their definitions as published, by plural, in the order of their names.
pub const DEFINITIONS: [(&str, &str); 3] = [
    ("gatewayclasses", include_str!("../gateway-api/gatewayclasses.yaml")),
    ("gateways", include_str!("../gateway-api/gateways.yaml")),
    ("httproutes", include_str!("../gateway-api/httproutes.yaml")),
];

//! Tunnels: `HTTPProxy`, `Connector`, `ConnectorClass`, and the two kinds that only our own programs
//! write, `HostnameClaim` and `GatewayReplica`.

#[allow(
    unreachable_pub,
    clippy::duplicated_attributes,
    reason = "KubeSchema copies a struct into a function, pub and all, and columns share types"
)]
mod claim;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod class;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod connector;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod proxy;
#[allow(
    unreachable_pub,
    clippy::duplicated_attributes,
    reason = "KubeSchema copies a struct into a function, pub and all, and columns share types"
)]
mod replica;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod route;
mod rules;
mod shapes;
mod status;
mod words;

pub use claim::{Claimant, HostnameClaim, HostnameClaimSpec};
pub use class::{ConnectorClass, ConnectorClassSpec};
pub use connector::{
    Address, ConnectionDetails, Connector, ConnectorSpec, ConnectorStatus, LeaseRef, PublicKey,
};
pub use proxy::{
    Backend, BackendTls, ConnectorRef, HttpProxy, HttpProxySpec, Instance, ListenerTls, ProxyRule,
};
pub use replica::{Applied, GatewayReplica, GatewayReplicaSpec, LostSession, Quarantined};
pub use route::{
    Filter, FilterType, Header, HeaderMatch, HeaderModifier, MatchType, Method, PathMatch,
    PathMatchType, PathModifier, PathModifierType, QueryMatch, Redirect, Rewrite, RouteMatch,
};
pub use status::{HostnameStatus, HttpProxyStatus, Revision, Timeline};
pub use words::{
    CLASS, CONTROLLER, annotations, canonical_hostname, canonical_label, conditions, headers,
    is_canonical, labels, reasons, split_canonical,
};

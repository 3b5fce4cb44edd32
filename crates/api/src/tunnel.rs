//! Tunnels: `HTTPProxy`, `Connector`, `ConnectorClass`, and the two kinds that only Aplomb's programs
//! write, `HostnameClaim` and `GatewayReplica`.

#[allow(
    unreachable_pub,
    clippy::duplicated_attributes,
    reason = "KubeSchema copies a struct into a function, pub and all, and columns share types"
)]
mod claim;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod class;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod connector;
mod constants;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod proxy;
#[allow(
    unreachable_pub,
    clippy::duplicated_attributes,
    reason = "KubeSchema copies a struct into a function, pub and all, and columns share types"
)]
mod replica;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod route;
mod schema;
mod status;
mod validation;

pub use claim::{Claimant, HostnameClaim, HostnameClaimSpec};
pub use class::{ConnectorClass, ConnectorClassSpec};
pub use connector::{
    ConnectionDetails, Connector, ConnectorSpec, ConnectorStatus, EndpointAddress, LeaseRef, PublicKey,
};
pub use constants::{
    CLASS, CONTROLLER, annotations, canonical_hostname, canonical_label, conditions, headers, is_canonical, labels,
    reasons, split_canonical,
};
pub use proxy::{
    Backend, BackendTls, ConnectorRef, EndpointSliceRef, HttpProxy, HttpProxySpec, ListenerTls, ProxyRule,
};
pub use replica::{AppliedVersions, GatewayReplica, GatewayReplicaSpec, LostSession, QuarantinedRoute};
pub use route::{
    HeaderMatch, HeaderModifier, HeaderValue, HttpMethod, PathMatch, PathMatchType, PathModifier, PathModifierType,
    QueryMatch, RequestRedirect, RouteFilter, RouteFilterType, RouteMatch, UrlRewrite, ValueMatchType,
};
pub use status::{ChildRevision, HostnameStatus, HttpProxyStatus, TunnelTimeline};

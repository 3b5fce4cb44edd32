//! Coder's provisioners and workspace proxies: the specs that users write, and the status of each.

#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod provisioner;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod proxy;
mod records;
mod rules;
mod shapes;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod shared;
mod words;

pub use provisioner::{CoderProvisioner, CoderProvisionerSpec, CoderProvisionerStatus, KeySpec};
pub use proxy::{
    CoderWorkspaceProxy, CoderWorkspaceProxySpec, CoderWorkspaceProxyStatus, PendingProxy,
    ProxyBootstrap, ProxyServiceSpec, RetiringProxy,
};
pub use records::{KeyRecord, RateLimited, RetiringKey, RotationStatus, ServerBinding};
pub use shared::{CoderServerRef, ControlPlaneRef, SecretKeyRef};
pub use words::{
    FINALIZER, LONGEST_NAME, LONGEST_PROXY_NAME, RESERVED, TOKEN_FINALIZER, annotations,
    bears_mark, conditions, is_marked, key_name, labels, mark, plain_key_name, proxy_name, reasons,
    shortened,
};

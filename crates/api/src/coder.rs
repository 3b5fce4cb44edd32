//! Coder's provisioners and workspace proxies: what a person asks for, and what the operator has done.

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
mod validation;
mod schema;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod shared;
mod constants;

pub use provisioner::{CoderProvisioner, CoderProvisionerSpec, CoderProvisionerStatus, KeySpec};
pub use proxy::{
    CoderWorkspaceProxy, CoderWorkspaceProxySpec, CoderWorkspaceProxyStatus, PendingProxy,
    ProxyBootstrap, ProxyServiceSpec, RetiringProxy,
};
pub use records::{KeyRecord, RateLimited, RetiringKey, RotationStatus, ServerBinding};
pub use shared::{CoderServerRef, ControlPlaneRef, SecretKeyRef};
pub use constants::{
    FINALIZER, MAX_NAME_LENGTH, MAX_PROXY_NAME_LENGTH, RESERVED_KEY_NAMES, TOKEN_FINALIZER, annotations,
    has_owner_suffix, conditions, is_owned_key_name, key_name, labels, owner_suffix, unsuffixed_key_name, proxy_name, reasons,
    truncate_name,
};

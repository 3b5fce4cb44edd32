//! Coder's provisioners and workspace proxies: the specs that users write, and the status of each.

mod constants;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod provisioner;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod proxy;
mod records;
mod schema;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod shared;
mod validation;

pub use constants::{
    FINALIZER, MAX_NAME_LENGTH, MAX_PROXY_NAME_LENGTH, RESERVED_KEY_NAMES, TOKEN_FINALIZER, annotations, conditions,
    has_owner_suffix, is_owned_key_name, key_name, labels, owner_suffix, proxy_name, reasons, truncate_name,
    unsuffixed_key_name,
};
pub use provisioner::{CoderProvisioner, CoderProvisionerSpec, CoderProvisionerStatus, KeySpec};
pub use proxy::{
    CoderWorkspaceProxy, CoderWorkspaceProxySpec, CoderWorkspaceProxyStatus, PendingProxy, ProxyBootstrap,
    ProxyServiceSpec, RetiringProxy,
};
pub use records::{KeyRecord, RateLimited, RetiringKey, RotationStatus, ServerBinding};
pub use shared::{CoderServerRef, ControlPlaneRef, SecretKeyRef};

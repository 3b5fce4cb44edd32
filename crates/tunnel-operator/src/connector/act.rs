//! The step that a judgement can ask for: a look at the Lease on the server itself.

use std::time::Duration;

use aplomb::{Context, ObjectKey};
use aplomb_api::tunnel::Connector;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::timeout;

use crate::heartbeat::HeartbeatTracker;

/// How long the server may take. Together with the lease it is what a dead agent can go unnoticed.
const READ_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Reads the Lease before silence is believed: a watch that is dead without anybody's knowing it is
/// silent too. Where the server does not answer, silence says nothing.
pub(crate) async fn confirm_lease(cx: &Context<Connector>, key: &ObjectKey, leases: &HeartbeatTracker) {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let api: Api<Lease> = Api::namespaced(cx.client(), namespace);
    match timeout(READ_TIMEOUT, api.get_opt(&key.name)).await {
        Ok(Ok(Some(lease))) => {
            leases.record(&lease);
        }
        Ok(Ok(None)) => {}
        Ok(Err(_)) | Err(_) => leases.extend_grace(key),
    }
}

//! The only step of a decision: reading the Lease from the API server.

use std::time::Duration;

use aplomb::{Context, ObjectKey};
use aplomb_api::tunnel::Connector;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::timeout;

use crate::heartbeat::HeartbeatTracker;

/// Timeout of the read. Together with the lease duration it bounds how long a dead agent goes unnoticed.
const READ_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Reads the Lease before the connector is reported offline, because a broken watch shows no heartbeats
/// either. If the API server does not respond, the deadline is extended.
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

//! Applies a table: sessions first, then the table that needs them, then the status report. Every effect may
//! be repeated. Decisions are made in `decide`.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Context, Result};
use aplomb_api::tunnel::{GatewayReplica, GatewayReplicaSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, Patch, PatchParams};
use tokio::time::{Instant, timeout};

use crate::controller::NAME;
use crate::listing;
use crate::office::GatewayContext;
use crate::proxy::ServePhase;
use crate::table::RoutingTable;
use crate::world::TableReport;

/// Timeout of one write. A server that hangs must not delay the next table.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The context of an effect.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<Namespace>,
    pub(crate) office: &'a GatewayContext,
}

impl Act<'_> {
    /// Puts a table into service.
    pub(crate) fn install_table(&self, table: RoutingTable, report: &TableReport) {
        self.office.sessions.set_targets(&report.session_targets);
        self.office.telemetry.retain_tunnels(&table);
        self.office.table.store(Arc::new(table));
        self.office.health.advance_to(ServePhase::Serving);
    }

    /// The report for the current table.
    pub(crate) fn replica_spec(&self, report: &TableReport) -> GatewayReplicaSpec {
        let place = &self.office.replica;
        let mut spec = GatewayReplicaSpec {
            listen: place.listen.clone(),
            listen_tls: place.listen_tls.clone(),
            endpoint_id: place.endpoint_id.clone(),
            lease_duration_seconds: i32::try_from(place.lease_seconds).unwrap_or(i32::MAX),
            renew_time: None,
            applied: report.applied.clone(),
            relays: Some(report.relays.clone()),
            tunnels: i32::try_from(report.tunnels).unwrap_or(i32::MAX),
            ..GatewayReplicaSpec::default()
        };
        let lost = self.office.sessions.lost_sessions();
        listing::write_lists(&mut spec, &report.quarantined, &lost);
        spec
    }

    /// Writes the report. A failure is recorded and retried later; tables are built meanwhile.
    pub(crate) async fn publish_replica(&self, spec: GatewayReplicaSpec) {
        let mut said = spec.clone();
        said.renew_time = Some(MicroTime(self.office.clock.now()));
        let mut replica = GatewayReplica::new(&self.office.replica.identity, said);
        replica.metadata.namespace = Some(self.office.replica.namespace.clone());
        let written = timeout(WRITE_TIMEOUT, self.apply_replica(replica)).await;
        let now = Instant::now();
        let mut memory = self.office.state();
        match written {
            Ok(Ok(_)) => memory.schedule.record_published(spec, now),
            Ok(Err(error)) => {
                tracing::warn!(%error, "Failed to update GatewayReplica");
                memory.schedule.record_failure(now);
            }
            Err(_) => {
                tracing::warn!("Failed to update GatewayReplica: no response within {WRITE_TIMEOUT:?}");
                memory.schedule.record_failure(now);
            }
        }
    }

    /// Applies the GatewayReplica, creating it if needed. This replica is its only writer. The response also
    /// updates the cache.
    async fn apply_replica(&self, replica: GatewayReplica) -> Result<()> {
        let place = &self.office.replica;
        let api: Api<GatewayReplica> = Api::namespaced(self.cx.client(), &place.namespace);
        let params = PatchParams::apply(NAME).force();
        let record = Patch::Apply(&replica);
        let written = api.patch(&place.identity, &params, &record).await?;
        let written = serde_json::to_value(written).map_err(aplomb::Error::fault)?;
        self.cx.cache::<GatewayReplica>()?.record_read(&written);
        Ok(())
    }

    /// Deletes this replica's GatewayReplica.
    ///
    /// # Errors
    /// Errors of the API server.
    pub(crate) async fn delete_replica(&self) -> Result<()> {
        self.cx.delete::<GatewayReplica>(&self.office.replica_key()).await?;
        self.office.set_left();
        Ok(())
    }
}

//! Applies a table: sessions first, then the table that needs them, then the status report. Every effect may
//! be repeated. Decisions are made in `decide`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Context, Result};
use aplomb_api::tunnel::{GatewayReplica, GatewayReplicaSpec, LostSession, QuarantinedRoute};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use crate::control::context::GatewayContext;
use crate::control::controller::NAME;
use crate::control::inputs::TableReport;
use crate::proxy::ServePhase;
use crate::routing::RoutingTable;

/// Timeout of one write. A server that hangs must not delay the next table.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<Namespace>,
    pub(crate) office: &'a GatewayContext,
}

impl Act<'_> {
    pub(crate) fn install_table(&self, table: RoutingTable, report: &TableReport) {
        self.office.sessions.set_targets(&report.session_targets);
        self.office.telemetry.retain_tunnels(&table);
        self.office.table.store(Arc::new(table));
        self.office.health.advance_to(ServePhase::Serving);
    }

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
        write_lists(&mut spec, &report.quarantined, &lost);
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

/// Maximum entries with a reason.
const MAX_ENTRIES: usize = 512;
/// Maximum bytes of those entries.
const MAX_ENTRY_BYTES: usize = 256 * 1024;
/// Maximum bytes of the names of the others.
const MAX_NAME_BYTES: usize = 192 * 1024;
const MAX_NAMESPACES: usize = 256;

/// Fills the lists of omitted routes and lost connectors.
pub(crate) fn write_lists(spec: &mut GatewayReplicaSpec, quarantined: &[QuarantinedRoute], lost: &[LostSession]) {
    let (shown, rest) = quarantined.split_at(fitting_entries(quarantined));
    let named = |it: &QuarantinedRoute| (it.namespace.clone(), format!("{}/{}", it.namespace, it.name));
    let (more, mut cut) = fitting_names(rest.iter().map(named).collect());
    (spec.quarantined, spec.more_quarantined) = (shown.to_vec(), more);
    let (shown, rest) = lost.split_at(fitting_entries(lost));
    let named = |it: &LostSession| {
        let name = format!("{}/{}/{}", it.namespace, it.name, it.session);
        (it.namespace.clone(), name)
    };
    let (more, lost_cut) = fitting_names(rest.iter().map(named).collect());
    (spec.lost, spec.more_lost) = (shown.to_vec(), more);
    cut.extend(lost_cut);
    spec.incomplete = match cut.len() > MAX_NAMESPACES {
        true => vec!["*".to_owned()],
        false => cut.into_iter().collect(),
    };
}

/// How many of the first entries fit with their reasons.
fn fitting_entries<T: Serialize>(all: &[T]) -> usize {
    let mut room = MAX_ENTRY_BYTES;
    let fits = |it: &&T| {
        let bytes = serde_json::to_vec(it).map_or(usize::MAX, |json| json.len() + 1);
        let left = room.checked_sub(bytes);
        room = left.unwrap_or_default();
        left.is_some()
    };
    all.iter().take(MAX_ENTRIES).take_while(fits).count()
}

/// The names that fit, and the namespaces of those that do not. Namespaces with few entries come first, so
/// that one with very many does not displace the others.
fn fitting_names(mut all: Vec<(String, String)>) -> (Vec<String>, BTreeSet<String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (namespace, _) in &all {
        *counts.entry(namespace.clone()).or_default() += 1;
    }
    all.sort_by_cached_key(|(namespace, name)| (counts[namespace], name.clone()));
    let (mut room, mut fit, mut cut) = (MAX_NAME_BYTES, Vec::new(), BTreeSet::new());
    for (namespace, name) in all {
        // Including quotes and a comma.
        room = room.saturating_sub(name.len() + 3);
        match room {
            0 => drop(cut.insert(namespace)),
            _ => fit.push(name),
        }
    }
    fit.sort_unstable();
    (fit, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(namespace: &str, name: String, reason: &str) -> QuarantinedRoute {
        QuarantinedRoute {
            namespace: namespace.to_owned(),
            name,
            reason: reason.to_owned(),
        }
    }

    fn listed(quarantined: &[QuarantinedRoute], lost: &[LostSession]) -> GatewayReplicaSpec {
        let mut spec = GatewayReplicaSpec {
            relays: Some(Vec::new()),
            ..GatewayReplicaSpec::default()
        };
        write_lists(&mut spec, quarantined, lost);
        let bytes = serde_json::to_vec(&spec).expect("JSON").len();
        assert!(bytes < 1_000_000, "{bytes} bytes");
        spec
    }

    #[test]
    fn everything_is_listed_however_much_it_is() {
        for count in [0, 511, 512, 513, 4_000] {
            let all: Vec<_> = (0..count)
                .map(|it| route("team", format!("web-{it}"), "rule 0: bad"))
                .collect();
            let lost: Vec<_> = (0..count)
                .map(|it| LostSession {
                    namespace: "team".to_owned(),
                    name: format!("laptop-{it}"),
                    session: "s".to_owned(),
                })
                .collect();
            let spec = listed(&all, &lost);
            assert_eq!(
                (spec.quarantined_routes().count(), spec.lost_sessions().count()),
                (count, count)
            );
            assert!(!spec.is_incomplete("team"));
            let with_reason = spec.quarantined_routes().filter(|(_, _, reason)| reason.is_some());
            assert_eq!(with_reason.count(), count.min(MAX_ENTRIES));
            let last = format!("web-{}", count.saturating_sub(1));
            assert_eq!(spec.quarantined_routes().any(|(_, name, _)| name == last), count > 0);
        }
    }

    #[test]
    fn long_reasons_cost_their_text_and_no_entry() {
        let reason = "\u{1}".repeat(512);
        let all: Vec<_> = (0..600).map(|it| route("team", format!("web-{it}"), &reason)).collect();
        let spec = listed(&all, &[]);
        assert_eq!(spec.quarantined_routes().count(), 600);
        assert!(spec.quarantined.len() < MAX_ENTRIES);
    }

    #[test]
    fn a_namespace_with_too_many_is_unknown_and_the_others_are_not() {
        let mut all: Vec<_> = (0..60_000)
            .map(|it| route("flood", format!("web-{it}"), "bad"))
            .collect();
        all.push(route("team", "web".to_owned(), "bad"));
        let spec = listed(&all, &[]);
        assert!(spec.is_incomplete("flood") && !spec.is_incomplete("team"));
        let mut listed_there = spec.quarantined_routes().filter(|(ns, _, _)| *ns == "team");
        assert_eq!(listed_there.next(), Some(("team", "web", None)));
    }

    #[test]
    fn too_many_namespaces_are_all_unknown() {
        let all: Vec<_> = (0..60_000)
            .map(|it| route(&format!("team-{it}"), "web".to_owned(), "bad"))
            .collect();
        assert!(listed(&all, &[]).is_incomplete("any"));
    }
}

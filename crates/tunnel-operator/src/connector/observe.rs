//! Collects the inputs of a decision in one [`Observed`], from the caches and the recorded heartbeats. Makes no call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::{Context, ObjectKey, Result, View};
use aplomb_api::tunnel::{Connector, ConnectorClass, ConnectorStatus, GatewayReplica, conditions};
use tokio::time::Instant;

use super::Observed;
use crate::connector::liveness::{LeaseSignal, LivenessSignals};
use crate::context::TunnelContext;
use crate::heartbeat::HeartbeatRecord;
use crate::views::LeaseView;

/// A decision is due when a Lease expires. A delay beyond this means that the process was suspended or not leading.
const LATE_DECISION_AFTER: Duration = Duration::from_secs(2);

/// Since when each connector has had no session at any gateway, and the agent session that was lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionLosses(Arc<Mutex<BTreeMap<ObjectKey, (String, Instant)>>>);

impl SessionLosses {
    /// Since when the sessions are lost; `session` is the agent session that is lost now, if any.
    fn lost_since(&self, key: &ObjectKey, session: Option<&str>, now: Instant) -> Option<Instant> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = session else {
            all.remove(key);
            return None;
        };
        let lost = all.entry(key.clone()).or_insert_with(|| (session.to_owned(), now));
        if lost.0 != session {
            *lost = (session.to_owned(), now);
        }
        Some(lost.1)
    }

    /// Drops the entry of a deleted connector.
    pub(crate) fn on_deleted(&self, key: &ObjectKey) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(key);
    }
}

/// Builds an [`Observed`] from these.
pub(crate) struct Observer<'a> {
    pub(crate) connector: &'a Connector,
    pub(crate) cx: &'a Context<Connector>,
    pub(crate) office: &'a TunnelContext,
    pub(crate) losses: &'a SessionLosses,
    pub(crate) key: &'a ObjectKey,
}

impl Observer<'_> {
    /// The current inputs.
    ///
    /// # Errors
    /// A cache is missing, which is a bug in the wiring.
    pub(crate) fn observe(&self, confirmed: bool) -> Result<Observed> {
        let now = Instant::now();
        let spec = &self.connector.spec;
        let status = self.connector.status.clone().unwrap_or_default();
        let class = ObjectKey::new(None, &spec.connector_class_name);
        let class = self.cx.cache::<ConnectorClass>()?.get(&class);
        let seen = self.observed_lease()?;
        let proven = self.office.sessions.last_proof(self.key);
        let heard = seen.as_ref().map(|seen| seen.seen_at);
        let (gateways, without) = self.session_counts(&status, now)?;
        let lost = registered_session(&status).filter(|_| gateways > 0 && without == gateways);
        let contested = (0 < without && without < gateways).then_some(());
        Ok(Observed {
            name: self.key.name.to_string(),
            class_name: spec.connector_class_name.clone(),
            class: class.map(|class| class.spec.clone()),
            gateways: self.gateway_ids()?,
            signals: LivenessSignals {
                now,
                was_online: was_online(&status),
                known: seen.is_some() || proven.is_some() || status.last_seen.is_some(),
                duration: self.lease_duration(seen.as_ref()),
                lease: seen.as_ref().map(|seen| lease_signal(seen, &status)),
                last_proof: proven,
                lost_since: self.losses.lost_since(self.key, lost, now),
            },
            contested_until: contested.and_then(|()| self.office.replica_heartbeats.next_expiry(now)),
            last_sign_of_life: heard.max(proven),
            late_decision: seen
                .as_ref()
                .is_some_and(|seen| seen.expires_at() + LATE_DECISION_AFTER < now),
            heartbeat: seen.and_then(|seen| seen.heartbeat.renewed),
            confirmed,
            clock: self.office.clock.now(),
            status,
        })
    }

    /// The last heartbeat seen on its Lease. If the Lease was deleted, the heartbeat stays valid until it expires.
    fn observed_lease(&self) -> Result<Option<HeartbeatRecord>> {
        let lease = self.cx.cache::<LeaseView>()?.get(self.key);
        let uid = View::meta(self.connector).uid;
        let own = |lease: &Arc<LeaseView>| lease.meta().owners.iter().any(|it| it.uid == uid);
        if let Some(lease) = lease.filter(own) {
            self.office.lease_heartbeats.record(&*lease);
        }
        Ok(self.office.lease_heartbeats.last_heartbeat(self.key))
    }

    /// The lease duration that the agent set, or the one that its class requests.
    fn lease_duration(&self, seen: Option<&HeartbeatRecord>) -> Duration {
        let asked = u64::try_from(self.connector.spec.lease_duration_seconds).unwrap_or_default();
        let promised = seen.map(|seen| seen.heartbeat.lease);
        promised
            .filter(|lease| !lease.is_zero())
            .unwrap_or(Duration::from_secs(asked))
    }

    fn gateway_ids(&self) -> Result<Vec<String>> {
        let replicas = self.cx.cache::<GatewayReplica>()?.list();
        let ids = replicas.iter().map(|it| it.spec.endpoint_id.clone());
        let mut ids: Vec<_> = ids.filter(|id| !id.is_empty()).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// The number of live gateways, and how many of them have no session to the registered agent session.
    fn session_counts(&self, status: &ConnectorStatus, now: Instant) -> Result<(usize, usize)> {
        let session = registered_session(status);
        let replicas = self.cx.cache::<GatewayReplica>()?.list();
        let live = replicas
            .iter()
            .filter(|replica| self.office.replica_heartbeats.is_live(replica, now));
        let live: Vec<_> = live.collect();
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let lost =
            |(ns, name, life): (&str, &str, &str)| ns == namespace && name == &*self.key.name && Some(life) == session;
        let without = live.iter().filter(|replica| replica.spec.lost_sessions().any(lost));
        Ok((live.len(), without.count()))
    }
}

/// The session id of the registered agent.
fn registered_session(status: &ConnectorStatus) -> Option<&str> {
    let details = status.connection_details.as_ref();
    details.map(|details| details.session.as_str())
}

fn was_online(status: &ConnectorStatus) -> Option<bool> {
    let online = status.conditions.iter();
    let online = online.filter(|it| it.type_ == conditions::ONLINE);
    online.map(|it| it.status == "True").next()
}

/// A heartbeat that has not changed since the connector went offline, before this process started, does not
/// count. Otherwise every restart would bring all dead connectors back online.
fn lease_signal(seen: &HeartbeatRecord, status: &ConnectorStatus) -> LeaseSignal {
    let then = status.lease_ref.as_ref();
    let then = then.and_then(|lease| lease.renew_time.as_ref());
    let same = then.map(|time| time.0) == seen.heartbeat.renewed;
    let dead = seen.unchanged_since_start && was_online(status) == Some(false) && same;
    LeaseSignal {
        until: (!dead).then(|| seen.expires_at()),
        released: seen.heartbeat.holder.is_none(),
    }
}

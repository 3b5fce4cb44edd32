//! Collects the inputs of a decision in one [`Observed`], from the caches and the recorded heartbeats. Makes
//! no call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::{Context, ObjectKey, Result, View};
use aplomb_api::tunnel::{Connector, ConnectorClass, ConnectorStatus, GatewayReplica, conditions};
use tokio::time::Instant;

use super::Observed;
use crate::liveness::{LeaseSignal, LivenessSignals};
use crate::office::TunnelContext;
use crate::pulse::{HeartbeatRecord, LeaseView};

/// A decision is due when a Lease expires. A delay beyond this means that the process was suspended or not
/// leading.
const OVERDUE: Duration = Duration::from_secs(2);

/// Since when each connector has had no session at any gateway, and the agent session that was lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionLosses(Arc<Mutex<BTreeMap<ObjectKey, (String, Instant)>>>);

impl SessionLosses {
    /// Since when the sessions are lost; `session` is the agent session that is lost now, if any.
    fn since(&self, key: &ObjectKey, session: Option<&str>, now: Instant) -> Option<Instant> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = session else {
            all.remove(key);
            return None;
        };
        let lost = all
            .entry(key.clone())
            .or_insert_with(|| (session.to_owned(), now));
        if lost.0 != session {
            *lost = (session.to_owned(), now);
        }
        Some(lost.1)
    }

    /// Drops the entry of a deleted connector.
    pub(crate) fn forget(&self, key: &ObjectKey) {
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
        let seen = self.lease()?;
        let proven = self.office.sessions.last(self.key);
        let heard = seen.as_ref().map(|seen| seen.at);
        let (gateways, without) = self.sessions(&status, now)?;
        let lost = session(&status).filter(|_| gateways > 0 && without == gateways);
        let contested = (0 < without && without < gateways).then_some(());
        Ok(Observed {
            name: self.key.name.to_string(),
            class_name: spec.connector_class_name.clone(),
            class: class.map(|class| class.spec.clone()),
            gateways: self.gateways()?,
            signs: LivenessSignals {
                now,
                was: was(&status),
                known: seen.is_some() || proven.is_some() || status.last_seen.is_some(),
                duration: self.duration(seen.as_ref()),
                lease: seen.as_ref().map(|seen| sign(seen, &status)),
                proven,
                lost_since: self.losses.since(self.key, lost, now),
            },
            contested_until: contested.and_then(|()| self.office.replicas.next_expiry(now)),
            heard: heard.max(proven),
            overdue: seen
                .as_ref()
                .is_some_and(|seen| seen.until() + OVERDUE < now),
            beat: seen.and_then(|seen| seen.beat.renewed),
            confirmed,
            clock: self.office.clock.now(),
            status,
        })
    }

    /// The last heartbeat seen on its Lease. If the Lease was deleted, the heartbeat stays valid until it
    /// expires.
    fn lease(&self) -> Result<Option<HeartbeatRecord>> {
        let lease = self.cx.cache::<LeaseView>()?.get(self.key);
        let uid = View::meta(self.connector).uid;
        let own = |lease: &Arc<LeaseView>| lease.meta().owners.iter().any(|it| it.uid == uid);
        if let Some(lease) = lease.filter(own) {
            self.office.leases.hear(&*lease);
        }
        Ok(self.office.leases.seen(self.key))
    }

    /// The lease duration that the agent set, or the one that its class requests.
    fn duration(&self, seen: Option<&HeartbeatRecord>) -> Duration {
        let asked = u64::try_from(self.connector.spec.lease_duration_seconds).unwrap_or_default();
        let promised = seen.map(|seen| seen.beat.lease);
        promised
            .filter(|lease| !lease.is_zero())
            .unwrap_or(Duration::from_secs(asked))
    }

    fn gateways(&self) -> Result<Vec<String>> {
        let replicas = self.cx.cache::<GatewayReplica>()?.list();
        let ids = replicas.iter().map(|it| it.spec.endpoint_id.clone());
        let mut ids: Vec<_> = ids.filter(|id| !id.is_empty()).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// The number of live gateways, and how many of them have no session to the registered agent session.
    fn sessions(&self, status: &ConnectorStatus, now: Instant) -> Result<(usize, usize)> {
        let session = session(status);
        let replicas = self.cx.cache::<GatewayReplica>()?.list();
        let live = replicas
            .iter()
            .filter(|replica| self.office.replicas.live(replica, now));
        let live: Vec<_> = live.collect();
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let lost = |(ns, name, life): (&str, &str, &str)| {
            ns == namespace && name == &*self.key.name && Some(life) == session
        };
        let without = live
            .iter()
            .filter(|replica| replica.spec.all_lost().any(lost));
        Ok((live.len(), without.count()))
    }
}

/// The session id of the registered agent.
fn session(status: &ConnectorStatus) -> Option<&str> {
    let details = status.connection_details.as_ref();
    details.map(|details| details.session.as_str())
}

/// Whether the status reports it online.
fn was(status: &ConnectorStatus) -> Option<bool> {
    let online = status.conditions.iter();
    let online = online.filter(|it| it.type_ == conditions::ONLINE);
    online.map(|it| it.status == "True").next()
}

/// A heartbeat that has not changed since the connector went offline, before this process started, does not
/// count. Otherwise every restart would bring all dead connectors back online.
fn sign(seen: &HeartbeatRecord, status: &ConnectorStatus) -> LeaseSignal {
    let then = status.lease_ref.as_ref();
    let then = then.and_then(|lease| lease.renew_time.as_ref());
    let same = then.map(|time| time.0) == seen.beat.renewed;
    let dead = seen.first && was(status) == Some(false) && same;
    LeaseSignal {
        until: (!dead).then(|| seen.until()),
        released: seen.beat.holder.is_none(),
    }
}

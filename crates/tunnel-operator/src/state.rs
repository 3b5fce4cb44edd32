//! State of tunnels kept between passes: the last proof, the connectors they use, which of them wait for
//! gateways, and the last report of each gateway. It is lost on restart; only latency depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aplomb::{Cache, ObjectKey, View};
use aplomb_api::tunnel::{
    ChildRevision, ConnectionDetails, GatewayReplica, GatewayReplicaSpec, HttpProxy, TunnelTimeline,
};

use crate::probe::result::ProbeResult;
use crate::views::ConnectorView;

/// The index of HTTPProxies by the connectors they name.
pub(crate) const BY_CONNECTOR: &str = "connector";
/// The index of HTTPProxies by the hostnames they name.
pub(crate) const BY_HOSTNAME: &str = "hostname";

/// How a Connector is reached, and at which version that last changed.
#[derive(Debug)]
struct Reachability {
    uid: String,
    details: Option<ConnectionDetails>,
    version: String,
}

impl Reachability {
    fn new(connector: &ConnectorView) -> Self {
        let meta = connector.meta();
        Self {
            uid: meta.uid.to_owned(),
            details: connector.status.connection_details.clone(),
            version: meta.version.to_owned(),
        }
    }

    fn is_of(&self, connector: &ConnectorView) -> bool {
        self.uid == connector.meta().uid && self.details == connector.status.connection_details
    }
}

/// The shared state. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TunnelState(Arc<Mutex<TunnelRecords>>);

#[derive(Debug, Default)]
struct TunnelRecords {
    probe_results: BTreeMap<ObjectKey, ProbeResult>,
    connectors: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    waiting: BTreeSet<ObjectKey>,
    /// At which version each Connector's connection details last changed.
    reachability: BTreeMap<ObjectKey, Reachability>,
    /// The last timeline of each tunnel, with its UID.
    timelines: BTreeMap<ObjectKey, (String, TunnelTimeline)>,
    children: BTreeMap<ObjectKey, Vec<ChildRevision>>,
    /// By UID: a gateway that is recreated under the same name is a new one.
    replicas: BTreeMap<String, GatewayReplicaSpec>,
}

impl TunnelState {
    pub(crate) fn probe_result(&self, key: &ObjectKey) -> Option<ProbeResult> {
        self.lock().probe_results.get(key).cloned()
    }

    pub(crate) fn record_probe(&self, key: &ObjectKey, evidence: ProbeResult) {
        self.lock().probe_results.insert(key.clone(), evidence);
    }

    /// Records the end of a pass: the connectors the tunnel uses, and whether it waits for gateways.
    pub(crate) fn record_pass(&self, key: &ObjectKey, connectors: BTreeSet<ObjectKey>, waiting: bool) {
        let mut known = self.lock();
        known.connectors.insert(key.clone(), connectors);
        match waiting {
            true => drop(known.waiting.insert(key.clone())),
            false => drop(known.waiting.remove(key)),
        }
    }

    /// Makes the proofs of a connector's tunnels due now, and returns those tunnels.
    pub(crate) fn expire_proofs(&self, connector: &ObjectKey) -> Vec<ObjectKey> {
        let mut known = self.lock();
        let users = known.connectors.iter();
        let users = users.filter(|(_, used)| used.contains(connector));
        let users: Vec<ObjectKey> = users.map(|(key, _)| key.clone()).collect();
        for key in &users {
            if let Some(evidence) = known.probe_results.get_mut(key) {
                evidence.next_probe_after = Duration::ZERO;
            }
        }
        users
    }

    /// Records a changed Connector. Its own status updates also give it new versions, which gateways need not
    /// acknowledge; only versions that change how it is reached count.
    pub(crate) fn record_connector(&self, connector: &ConnectorView) {
        let key = connector.meta().key();
        let mut known = self.lock();
        if !known.reachability.get(&key).is_some_and(|it| it.is_of(connector)) {
            known.reachability.insert(key, Reachability::new(connector));
        }
    }

    /// The version at which the Connector's connection details last changed.
    pub(crate) fn reachability_version(&self, connector: &ConnectorView) -> String {
        let known = self.lock();
        let heard = known.reachability.get(&connector.meta().key());
        let heard = heard.filter(|it| it.is_of(connector));
        heard.map_or(connector.meta().version, |it| &it.version).to_owned()
    }

    /// The revision at which a child of a tunnel last changed. Status reports give the child new versions,
    /// which gateways need not acknowledge. The tunnel's status has the same value once it has been written.
    pub(crate) fn child_revision(&self, tunnel: &ObjectKey, child: ChildRevision, changed: bool) -> ChildRevision {
        let mut known = self.lock();
        let all = known.children.entry(tunnel.clone()).or_default();
        let same = |it: &ChildRevision| it.kind == child.kind && it.name == child.name;
        let before = all.iter().find(|it| same(it));
        if let Some(before) = before.filter(|it| !changed && it.digest == child.digest) {
            return before.clone();
        }
        all.retain(|it| !same(it));
        all.push(child.clone());
        child
    }

    /// The stages that a tunnel had reached at its last decision. The tunnel's status has the same value once
    /// it has been written.
    pub(crate) fn timeline(&self, tunnel: &ObjectKey, uid: &str) -> Option<TunnelTimeline> {
        let known = self.lock();
        let (of, timeline) = known.timelines.get(tunnel)?;
        (of == uid).then(|| timeline.clone())
    }

    pub(crate) fn record_timeline(&self, tunnel: &ObjectKey, uid: &str, timeline: TunnelTimeline) {
        let told = (uid.to_owned(), timeline);
        self.lock().timelines.insert(tunnel.clone(), told);
    }

    pub(crate) fn on_connector_deleted(&self, key: &ObjectKey) {
        self.lock().reachability.remove(key);
    }

    pub(crate) fn on_tunnel_deleted(&self, key: &ObjectKey) {
        let mut known = self.lock();
        known.probe_results.remove(key);
        known.connectors.remove(key);
        known.waiting.remove(key);
        known.children.remove(key);
        known.timelines.remove(key);
    }

    /// The tunnels that a gateway's report concerns. If the gateway is added, removed or changes its address,
    /// all of them. Otherwise those that wait for it, those with a certificate if it has loaded a Secret, and
    /// those whose session or route it gained or lost.
    pub(crate) fn affected_by(&self, replica: &GatewayReplica, all: &Cache<HttpProxy>) -> Vec<ObjectKey> {
        let (uid, new) = (View::meta(replica).uid, &replica.spec);
        let old = self.lock().replicas.insert(uid.to_owned(), new.clone());
        let place = |spec: &GatewayReplicaSpec| {
            let tls = spec.listen_tls.clone();
            (spec.listen.clone(), tls, spec.endpoint_id.clone())
        };
        let same = |old: &GatewayReplicaSpec| {
            place(old) == place(new) && old.incomplete == new.incomplete && old.relays == new.relays
        };
        let Some(old) = old.filter(same) else {
            return keys(&all.list());
        };
        let mut concerned: BTreeSet<ObjectKey> = self.lock().waiting.clone();
        if old.applied.secrets != new.applied.secrets {
            let mut secured = all.list();
            secured.retain(|proxy| proxy.spec.tls.is_some());
            concerned.extend(keys(&secured));
        }
        let (was, is): (BTreeSet<_>, BTreeSet<_>) = (lost_connectors(&old), lost_connectors(new));
        for connector in was.symmetric_difference(&is) {
            concerned.extend(keys(&all.by_index(BY_CONNECTOR, connector)));
        }
        let routes = |spec: &GatewayReplicaSpec| -> BTreeSet<(ObjectKey, Option<String>)> {
            let all = spec.quarantined_routes();
            all.map(|(ns, name, why)| (ObjectKey::new(Some(ns), name), why.map(str::to_owned)))
                .collect()
        };
        let (was, is) = (routes(&old), routes(new));
        concerned.extend(was.symmetric_difference(&is).map(|(key, _)| key.clone()));
        concerned.into_iter().collect()
    }

    /// Drops the reports of gateways and returns every tunnel.
    pub(crate) fn on_replica_deleted(&self) -> Vec<ObjectKey> {
        let mut known = self.lock();
        // The remaining gateways count as new at their next report, which costs one pass.
        known.replicas.clear();
        known.connectors.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, TunnelRecords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost_connectors(spec: &GatewayReplicaSpec) -> BTreeSet<String> {
    let all = spec.lost_sessions();
    all.map(|(namespace, name, _)| format!("{namespace}/{name}")).collect()
}

pub(crate) fn keys(all: &[Arc<HttpProxy>]) -> Vec<ObjectKey> {
    all.iter().map(|proxy| View::meta(&**proxy).key()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(version: &str, digest: &str) -> ChildRevision {
        ChildRevision {
            kind: "HTTPRoute".to_owned(),
            name: "web".to_owned(),
            version: version.to_owned(),
            digest: digest.to_owned(),
        }
    }

    #[test]
    fn a_child_keeps_its_version_until_it_is_written_again() {
        let (memory, tunnel) = (TunnelState::default(), ObjectKey::new(Some("default"), "web"));
        let version = |child, changed| memory.child_revision(&tunnel, child, changed).version;
        assert_eq!(version(route("7", "a"), true), "7");
        assert_eq!(version(route("9", "a"), false), "7", "our own status report");
        assert_eq!(version(route("12", "a"), true), "12", "another writer was corrected");
        assert_eq!(version(route("15", "b"), true), "15", "another spec");
        memory.on_tunnel_deleted(&tunnel);
        assert_eq!(version(route("20", "b"), false), "20", "no recorded version");
    }
}

//! State kept between passes. A restart may lose all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aplomb::key::ResourceVersion;
use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::AppliedVersions;
use rustls::sign::CertifiedKey;
use tokio::time::Instant;

use crate::certificates;
use crate::control::decide::controlling_proxy;
use crate::control::publish_schedule::PublishSchedule;
use crate::control::views::{GatewayConnectorView, GatewayView, TlsSecretView};

/// How long a Gateway may wait for its HTTPProxy to appear before it counts as unowned. The two arrive on
/// different watches, so the child may come first.
const OWNER_WAIT: Duration = Duration::from_millis(500);

/// Pause between table builds, as a multiple of the build time, because requests need the CPU too.
const REST_FACTOR: u32 = 4;
const MAX_REST: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct ControlState {
    rest_until: Option<Instant>,
    pub(crate) schedule: PublishSchedule,
    released: BTreeMap<ObjectKey, String>,
    orphans: BTreeMap<String, Instant>,
    /// Gateways that were seen with their HTTPProxy. Without it they are about to be deleted.
    owned: BTreeSet<String>,
    /// Gateways that were waited for in the last pass.
    waiting: BTreeMap<String, (ObjectKey, ResourceVersion)>,
    started_at: Option<Instant>,
    certificates: BTreeMap<ObjectKey, (ResourceVersion, CertificateResult)>,
}

pub(crate) type CertificateResult = Result<Arc<CertifiedKey>, String>;

impl ControlState {
    /// How long to wait before the next table is built, if at all.
    pub(crate) fn rest(&self, now: Instant) -> Option<Duration> {
        let rested = self.rest_until.filter(|rested| *rested > now)?;
        Some(rested - now)
    }

    pub(crate) fn record_build(&mut self, took: Duration, now: Instant) {
        self.rest_until = Some(now + took.saturating_mul(REST_FACTOR).min(MAX_REST));
    }

    /// Whether the agent of a Connector shut down gracefully. The operator's report applies to the agent
    /// session that was registered when it was first seen.
    pub(crate) fn is_released(&mut self, connector: &GatewayConnectorView) -> bool {
        let key = connector.meta().key();
        let details = connector.status.connection_details.as_ref();
        let session = details.map(|it| it.session.clone()).unwrap_or_default();
        if !connector.is_released() {
            self.released.remove(&key);
            return false;
        }
        *self.released.entry(key).or_insert_with(|| session.clone()) == session
    }

    /// Gateways whose HTTPProxy may be about to appear, and until when to wait. One that was already seen
    /// with it, or was acknowledged, is not waited for again: reported versions never go back.
    pub(crate) fn awaited_owners(
        &mut self,
        gateways: &[Arc<GatewayView>],
        proxies: &BTreeMap<ObjectKey, String>,
        now: Instant,
    ) -> (BTreeSet<String>, Option<Instant>) {
        self.started_at.get_or_insert(now);
        let orphans = self.orphaned_gateways(gateways, proxies);
        self.orphans.retain(|uid, _| orphans.contains_key(uid));
        for uid in orphans.keys() {
            self.orphans.entry(uid.clone()).or_insert(now);
        }
        let mut waiting = orphans;
        waiting.retain(|uid, _| self.orphans[uid] + OWNER_WAIT > now);
        let until = waiting.keys().map(|uid| self.orphans[uid] + OWNER_WAIT).min();
        let uids = waiting.keys().cloned().collect();
        for (uid, (key, version)) in std::mem::replace(&mut self.waiting, waiting) {
            if !self.waiting.contains_key(&uid) {
                self.schedule.request_publish("Gateway", key, version, now);
            }
        }
        (uids, until)
    }

    /// Gateways whose HTTPProxy has not appeared yet.
    fn orphaned_gateways(
        &mut self,
        gateways: &[Arc<GatewayView>],
        proxies: &BTreeMap<ObjectKey, String>,
    ) -> BTreeMap<String, (ObjectKey, ResourceVersion)> {
        let known = std::mem::take(&mut self.owned);
        let mut orphans = BTreeMap::new();
        for meta in gateways.iter().map(|gateway| gateway.meta()) {
            let Some(owner) = controlling_proxy(meta.owners) else {
                continue;
            };
            let seen = proxies.get(&ObjectKey::new(meta.namespace, owner.name));
            if known.contains(meta.uid) || seen.is_some_and(|seen| seen == owner.uid) {
                self.owned.insert(meta.uid.to_owned());
            } else if !self.schedule.has_published("Gateway", &meta.version()) {
                orphans.insert(meta.uid.to_owned(), (meta.key(), meta.version()));
            }
        }
        orphans
    }

    /// Until when the first report waits for HTTPProxies that have not appeared yet. An earlier report would
    /// omit routes that this replica is about to serve.
    pub(crate) fn first_publish_at(&self, awaited: Option<Instant>) -> Option<Instant> {
        let longest = self.started_at? + OWNER_WAIT;
        awaited
            .filter(|_| self.schedule.is_unpublished())
            .map(|until| until.min(longest))
    }

    /// The certificate of a Secret, parsed once per version.
    pub(crate) fn certificate(&mut self, secret: &TlsSecretView) -> CertificateResult {
        let meta = secret.meta();
        let (key, version) = (meta.key(), meta.version());
        if let Some((known, certified)) = self.certificates.get(&key)
            && *known == version
        {
            return certified.clone();
        }
        let part = |name: &str| secret.data.get(name).map_or(&[][..], |it| &it.0);
        let certified = certificates::parse_key_pair(part("tls.crt"), part("tls.key"));
        let certified = certified.map(Arc::new).map_err(|error| error.to_string());
        if let Err(error) = &certified {
            tracing::warn!(secret = %key, error, "Secret does not contain a valid certificate");
        }
        self.certificates.insert(key, (version, certified.clone()));
        certified
    }

    pub(crate) fn retain_released(&mut self, named: &BTreeSet<ObjectKey>) {
        self.released.retain(|key, _| named.contains(key));
    }

    pub(crate) fn retain_certificates(&mut self, named: &BTreeSet<ObjectKey>) {
        self.certificates.retain(|key, _| named.contains(key));
    }
}

pub(crate) fn applied_version<'a>(applied: &'a AppliedVersions, kind: &str) -> &'a str {
    match kind {
        "Gateway" => &applied.gateways,
        "HTTPRoute" => &applied.http_routes,
        "EndpointSlice" => &applied.endpoint_slices,
        "Connector" => &applied.connectors,
        "Secret" => &applied.secrets,
        _ => &applied.claims,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn connector(session: &str, reason: &str) -> GatewayConnectorView {
        let connector = json!({
            "metadata": { "namespace": "a", "name": "laptop" },
            "status": {
                "connectionDetails": { "session": session, "publicKey": { "id": "ab".repeat(32) } },
                "conditions": [{ "type": "Online", "status": "False", "reason": reason }],
            },
        });
        serde_json::from_value(connector).expect("a connector")
    }

    #[test]
    fn a_new_session_is_not_the_released_one() {
        let mut memory = ControlState::default();
        assert!(memory.is_released(&connector("one", "Released")));
        assert!(!memory.is_released(&connector("two", "Released")));
        assert!(!memory.is_released(&connector("two", "LeaseExpired")));
        assert!(
            memory.is_released(&connector("two", "Released")),
            "the second one was released too"
        );
        memory.retain_released(&BTreeSet::new());
        assert!(memory.released.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn building_tables_leaves_most_of_the_time_to_requests() {
        let (mut memory, now) = (ControlState::default(), Instant::now());
        assert_eq!(memory.rest(now), None);
        memory.record_build(Duration::from_millis(10), now);
        assert_eq!(memory.rest(now), Some(Duration::from_millis(40)));
        assert_eq!(memory.rest(now + Duration::from_millis(40)), None);
        memory.record_build(Duration::from_secs(3), now);
        assert_eq!(memory.rest(now), Some(MAX_REST));
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_waits_a_bounded_time_for_its_owner() {
        let gateway = json!({
            "metadata": {
                "namespace": "a", "name": "app", "uid": "child",
                "ownerReferences": [{ "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
                    "controller": true, "name": "app", "uid": "u" }],
            },
            "spec": { "gatewayClassName": "aplomb", "listeners": [] },
        });
        let gateway: GatewayView = serde_json::from_value(gateway).expect("a gateway");
        let (gateways, now) = ([Arc::new(gateway)], Instant::now());
        let mut memory = ControlState::default();
        let mut awaits = |proxies: &BTreeMap<ObjectKey, String>, at| {
            let (awaited, until) = memory.awaited_owners(&gateways, proxies, at);
            assert_eq!(memory.first_publish_at(until), until.filter(|_| at == now));
            !awaited.is_empty()
        };
        assert!(awaits(&BTreeMap::new(), now));
        assert!(!awaits(&BTreeMap::new(), now + OWNER_WAIT));
        let seen = BTreeMap::from([(ObjectKey::new(Some("a"), "app"), "u".to_owned())]);
        let mut memory = ControlState::default();
        let mut awaits =
            |proxies: &BTreeMap<ObjectKey, String>, at| !memory.awaited_owners(&gateways, proxies, at).0.is_empty();
        assert!(awaits(&BTreeMap::new(), now));
        assert!(!awaits(&seen, now));
        assert!(
            !awaits(&BTreeMap::new(), now),
            "its HTTPProxy was deleted: reported versions never go back"
        );
    }
}

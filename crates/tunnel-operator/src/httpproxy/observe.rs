//! Collects the inputs of a decision about one tunnel. Reads caches and in-memory state; writes nothing and
//! makes no call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Cache, Context, Freshness, ObjectKey, Result, View};
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{
    CLASS, Claimant, ConnectorClass, GatewayReplica, HostnameClaim, HttpProxy, conditions as kinds, labels, reasons,
    split_canonical,
};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::context::TunnelContext;
use crate::httpproxy::child_status::is_child;
use crate::httpproxy::{
    ClaimState, Observed, ObservedConnector, ObservedReplica, Progress, UnownedGateway, unowned_gateways,
};
use crate::views::ConnectorView;

/// How long a watch may be disconnected: as long as a gateway's heartbeat is valid.
const MAX_WATCH_OUTAGE: Duration = Duration::from_secs(15);

/// The reason used for a route that is listed without one.
const UNLISTED_REASON: &str = "too many routes are omitted to list each reason; fix the routes with a reason first";

/// The index of claims by the UID of the claimant.
pub(crate) const BY_CLAIMANT: &str = "claimant";
/// The index of HTTPProxies by the first label of their platform hostname.
pub(crate) const BY_LABEL: &str = "label";
/// The index of Gateways without an HTTPProxy by their listener hostnames.
pub(crate) const BY_LISTENER: &str = "listener";
/// The index of HTTPRoutes by the hostnames that they name.
pub(crate) const BY_ROUTE: &str = "hostname";

pub(crate) struct Observer<'a> {
    pub(crate) proxy: &'a Arc<HttpProxy>,
    pub(crate) cx: &'a Context<HttpProxy>,
    pub(crate) office: &'a TunnelContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) began: Timestamp,
}

impl Observer<'_> {
    /// The current state, for a pass that has made this `progress`.
    pub(crate) fn observe(&self, progress: &Progress) -> Result<Observed> {
        let claims = self.cx.cache::<HostnameClaim>()?;
        let replicas = self.cx.cache::<GatewayReplica>()?;
        let connectors = self.cx.cache::<ConnectorView>()?;
        let now = Instant::now();
        Ok(Observed {
            proxy: self.proxy.clone(),
            domain: self.domain()?,
            domains: self.domains()?,
            platform_hostnames: self.platform_hostnames()?,
            networks: self.networks()?,
            started_at: self.began,
            now: self.office.clock.now(),
            instant: now,
            claims: self.claim_states(claims, progress)?,
            unowned_gateways: self.unowned_gateways(claims)?,
            surplus_claims: self.surplus_claims(claims),
            connectors: self.observed_connectors(connectors),
            replicas: self.live_replicas(replicas, now),
            child_status_reported: self.child_status_reported()?,
            fresh: is_trusted(&replicas.freshness(), now) && is_trusted(&connectors.freshness(), now),
            progress: progress.clone(),
            probe_result: self.office.state.probe_result(self.key),
        })
    }

    fn child_status_reported(&self) -> Result<bool> {
        let gateway = self.cx.cache::<Gateway>()?.get(self.key);
        let gateway = gateway.filter(|it| is_child(&it.metadata, self.proxy));
        let status = gateway.as_ref().and_then(|it| it.status.as_ref());
        let mut conditions = status.iter().flat_map(|it| it.conditions.iter().flatten());
        // The Gateway API's own default is Unknown and Pending.
        Ok(conditions.any(|it| it.type_ == kinds::PROGRAMMED && it.reason != reasons::PENDING))
    }

    /// The domain of the class. The operator's own if the class sets none, or if the default class does not exist.
    fn domain(&self) -> Result<Option<String>> {
        let class = &self.proxy.spec.connector_class_name;
        let found = self.cx.cache::<ConnectorClass>()?.get(&ObjectKey::new(None, class));
        let known = found.is_some() || class == CLASS;
        let own = || self.office.domain.to_string();
        let domain = found.and_then(|class| class.spec.domain.clone());
        Ok(known.then(|| domain.unwrap_or_else(own)))
    }

    fn networks(&self) -> Result<Vec<String>> {
        let spec = &self.proxy.spec;
        let mut backends = spec.rules.iter().flat_map(|rule| &rule.backends);
        if backends.all(|it| it.connector.is_some()) {
            return Ok(Vec::new());
        }
        let class = ObjectKey::new(None, &spec.connector_class_name);
        let found = self.cx.cache::<ConnectorClass>()?.get(&class);
        Ok(found.map_or_else(Vec::new, |it| it.spec.backend_networks.clone()))
    }

    fn domains(&self) -> Result<BTreeSet<String>> {
        let classes = self.cx.cache::<ConnectorClass>()?.list();
        let named = classes.iter().filter_map(|it| it.spec.domain.as_deref());
        let all = named.chain([&*self.office.domain]);
        Ok(all.map(str::to_ascii_lowercase).collect())
    }

    fn platform_hostnames(&self) -> Result<BTreeSet<String>> {
        let proxies = self.cx.cache::<HttpProxy>()?;
        let another = |label: &str| {
            let all = proxies.by_index(BY_LABEL, label);
            all.iter().any(|it| View::meta(&**it).uid != self.proxy_uid())
        };
        let hostnames = self.proxy.spec.hostnames.iter();
        let given = hostnames.filter(|it| split_canonical(it).is_some_and(|(label, _)| another(label)));
        Ok(given.cloned().collect())
    }

    fn proxy_uid(&self) -> &str {
        self.proxy.metadata.uid.as_deref().unwrap_or_default()
    }

    fn claim_states(&self, all: &Cache<HostnameClaim>, progress: &Progress) -> Result<BTreeMap<String, ClaimState>> {
        let proxies = self.cx.cache::<HttpProxy>()?;
        let hostnames = self.proxy.spec.hostnames.iter();
        let seen = |hostname: &String| {
            let cached = all.get(&ObjectKey::new(None, hostname));
            let rival = || progress.other_claims.get(hostname).cloned().map(Arc::new);
            let claim = cached.or_else(rival);
            let seen = claim.map_or(ClaimState::Free, |claim| self.claim_state(&claim, proxies, progress));
            (hostname.clone(), seen)
        };
        Ok(hostnames.map(seen).collect())
    }

    fn claim_state(&self, claim: &HostnameClaim, proxies: &Cache<HttpProxy>, progress: &Progress) -> ClaimState {
        let Claimant { namespace, name, uid } = &claim.spec.claimant;
        if uid == self.proxy_uid() {
            let (version, uid) = (&claim.metadata.resource_version, &claim.metadata.uid);
            let known = |it: &Option<String>| it.clone().unwrap_or_default();
            return ClaimState::Own(known(version), known(uid));
        }
        let holder = proxies.get(&ObjectKey::new(Some(namespace), name));
        let cached = holder.is_some_and(|it| it.metadata.uid.as_deref() == Some(uid));
        let exists = cached || progress.known_claimants.contains(uid);
        match exists {
            true => ClaimState::Taken {
                namespace: namespace.clone(),
                name: name.clone(),
            },
            false => ClaimState::Orphaned,
        }
    }

    /// The Gateways without an HTTPProxy that have hostnames of the spec. One that certainly precedes our
    /// claim takes precedence over others.
    fn unowned_gateways(&self, claims: &Cache<HostnameClaim>) -> Result<BTreeMap<String, UnownedGateway>> {
        let (gateways, routes) = (self.cx.cache::<Gateway>()?, self.cx.cache::<HttpRoute>()?);
        let wildcards = gateways.by_index(BY_LISTENER, unowned_gateways::WILDCARD);
        let seen = |hostname: &String| {
            let claim = claims.get(&ObjectKey::new(None, hostname));
            let claimed = claim.and_then(|it| it.metadata.creation_timestamp.clone());
            let mut all: Vec<UnownedGateway> = gateways
                .by_index(BY_LISTENER, hostname)
                .iter()
                .filter(|it| !self.is_own(it))
                .map(|it| unowned_gateway(it, unowned_gateways::is_older_than(it, claimed.as_ref())))
                .collect();
            let routes = routes.by_index(BY_ROUTE, hostname);
            let routed = wildcards.iter().filter(|gateway| {
                routes
                    .iter()
                    .any(|it| unowned_gateways::has_by_route(gateway, it, hostname))
            });
            all.extend(routed.map(|it| unowned_gateway(it, false)));
            let holder = all.into_iter().max_by_key(|it| it.older)?;
            Some((hostname.clone(), holder))
        };
        Ok(self.proxy.spec.hostnames.iter().filter_map(seen).collect())
    }

    /// Whether a Gateway is this tunnel's child, or becomes one with the next write.
    fn is_own(&self, gateway: &Gateway) -> bool {
        let meta = &gateway.metadata;
        let mut owners = meta.owner_references.iter().flatten();
        let controlled = owners.any(|it| it.controller == Some(true));
        let label = meta.labels.as_ref().and_then(|it| it.get(labels::PROXY));
        let adopted = !controlled && label.map(String::as_str) == Some(&*self.key.name);
        View::meta(gateway).key() == *self.key && (is_child(meta, self.proxy) || adopted)
    }

    fn surplus_claims(&self, all: &Cache<HostnameClaim>) -> BTreeSet<String> {
        let wanted = &self.proxy.spec.hostnames;
        let ours = all.by_index(BY_CLAIMANT, self.proxy_uid());
        let names = ours.iter().filter_map(|claim| claim.metadata.name.clone());
        names.filter(|name| !wanted.contains(name)).collect()
    }

    fn observed_connectors(&self, all: &Cache<ConnectorView>) -> BTreeMap<String, Option<ObservedConnector>> {
        let seen = |name: &String| {
            let found = all.get(&ObjectKey::new(self.key.namespace.as_deref(), name));
            let found = found.filter(|it| !it.meta().deleting);
            found.map(|it| ObservedConnector {
                uid: it.meta().uid.to_owned(),
                version: self.office.state.reachability_version(&it),
                details: it.status.connection_details.clone(),
                online: it.online_condition(),
            })
        };
        let names = connector_names(self.proxy);
        names.iter().map(|name| (name.clone(), seen(name))).collect()
    }

    fn live_replicas(&self, all: &Cache<GatewayReplica>, now: Instant) -> Vec<ObservedReplica> {
        let all = all.list();
        let live = all
            .iter()
            .filter(|it| !View::meta(&***it).deleting && self.office.replica_heartbeats.is_live(it, now));
        live.map(|it| self.observed_replica(it)).collect()
    }

    fn observed_replica(&self, replica: &GatewayReplica) -> ObservedReplica {
        let spec = &replica.spec;
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let names = connector_names(self.proxy);
        let route = |(ns, name, _): &(&str, &str, _)| *ns == namespace && *name == &*self.key.name;
        let uses = |(ns, name, _): (&str, &str, _)| ns == namespace && names.contains(name);
        let quarantined = spec.quarantined_routes().find(route);
        ObservedReplica {
            name: replica.metadata.name.clone().unwrap_or_default(),
            listen: spec.listen.clone(),
            listen_tls: spec.listen_tls.clone(),
            endpoint_id: spec.endpoint_id.clone(),
            applied: spec.applied.clone(),
            relays: spec.relays.as_ref().map(|all| {
                let urls = all.iter().filter_map(|relay| relay.parse().ok());
                urls.collect()
            }),
            quarantined: quarantined.map(|(_, _, reason)| reason.unwrap_or(UNLISTED_REASON).to_owned()),
            quarantine_list_incomplete: quarantined.is_none() && spec.is_incomplete(namespace),
            lost: spec.lost_sessions().any(uses),
        }
    }
}

fn unowned_gateway(gateway: &Gateway, first: bool) -> UnownedGateway {
    let meta = &gateway.metadata;
    UnownedGateway {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        older: first,
    }
}

/// Whether the watch data is still reliable. A watch that reconnects does not mean that gateways are gone,
/// and proofs continue meanwhile.
fn is_trusted(freshness: &Freshness, now: Instant) -> bool {
    let down = freshness.reconnecting_since;
    freshness.synced && down.is_none_or(|since| now < since + MAX_WATCH_OUTAGE)
}

/// The names of the connectors that a tunnel uses.
pub(crate) fn connector_names(proxy: &HttpProxy) -> BTreeSet<String> {
    let rules = proxy.spec.rules.iter();
    let backends = rules.flat_map(|rule| &rule.backends);
    let connectors = backends.filter_map(|backend| backend.connector.as_ref());
    connectors.map(|connector| connector.name.clone()).collect()
}

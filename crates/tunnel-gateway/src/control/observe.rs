//! Collects the inputs of a table in one [`TableInputs`], from the caches alone. Makes no call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aplomb::{Cache, Context, ObjectKey, Result, View};
use aplomb_api::tunnel::{AppliedVersions, CONTROLLER, ConnectorClass, HostnameClaim, split_canonical};
use ipnet::IpNet;
use iroh::RelayUrl;
use k8s_openapi::api::core::v1::Namespace;
use tokio::time::Instant;

use crate::control::context::GatewayContext;
use crate::control::inputs::{Claim, ConnectorInfo, TableInputs};
use crate::control::references::{TableReferences, is_our_class};
use crate::control::views::{GatewayConnectorView, GatewayView, ProxyView, RouteView, SliceView, TlsSecretView};

/// The index of HTTPProxies by the first label of their platform hostname.
pub(crate) const BY_LABEL: &str = "label";

pub(crate) struct Observer<'a> {
    pub(crate) cx: &'a Context<Namespace>,
    pub(crate) office: &'a GatewayContext,
}

/// The inputs, and when they may change without an event.
pub(crate) struct Observed {
    pub(crate) inputs: TableInputs,
    pub(crate) requeue_at: Option<Instant>,
}

impl Observer<'_> {
    /// The current inputs.
    ///
    /// # Errors
    /// A cache is missing, which is a bug in the wiring.
    pub(crate) fn observe(&self) -> Result<Observed> {
        // Read first: every version that is acknowledged must be included in the data read below.
        let versions = self.cache_versions()?;
        let mut gateways = self.cx.cache::<GatewayView>()?.list();
        gateways.retain(|gateway| is_our_class(gateway));
        let mut interest = TableReferences::from_gateways(gateways.iter().map(|it| &**it));
        self.office.references.extend(&interest);
        let mut routes = self.cx.cache::<RouteView>()?.list();
        routes.retain(|route| interest.attaches_route(route));
        routes.iter().for_each(|route| interest.add_route(route));
        self.office.references.extend(&interest);
        let slices = select(self.cx.cache::<SliceView>()?, interest.slices.iter());
        slices.values().for_each(|slice| interest.add_slice(slice));
        self.office.references.set(interest.clone());
        let proxies = select(self.cx.cache::<ProxyView>()?, interest.proxies.iter());
        let proxies: BTreeMap<ObjectKey, String> = proxies
            .into_iter()
            .map(|(key, proxy)| (key, proxy.meta().uid.to_owned()))
            .collect();
        let (awaited, again) = {
            let mut memory = self.office.state();
            memory.awaited_owners(&gateways, &proxies, Instant::now())
        };
        let claims = self.claims(&interest)?;
        let world = TableInputs {
            connectors: self.connectors(&interest)?,
            domains: self.domains()?,
            labels: self.labels(&claims)?,
            claims,
            certificates: self.certificates(&interest)?,
            relays: self.relays()?,
            class_networks: self.networks()?,
            gateways,
            routes,
            slices,
            proxies,
            versions,
            awaited,
        };
        Ok(Observed {
            inputs: world,
            requeue_at: again,
        })
    }

    fn cache_versions(&self) -> Result<AppliedVersions> {
        Ok(AppliedVersions {
            gateways: observed_version(self.cx.cache::<GatewayView>()?),
            http_routes: observed_version(self.cx.cache::<RouteView>()?),
            endpoint_slices: observed_version(self.cx.cache::<SliceView>()?),
            connectors: observed_version(self.cx.cache::<GatewayConnectorView>()?),
            secrets: observed_version(self.cx.cache::<TlsSecretView>()?),
            claims: observed_version(self.cx.cache::<HostnameClaim>()?),
        })
    }

    fn connectors(&self, interest: &TableReferences) -> Result<BTreeMap<ObjectKey, ConnectorInfo>> {
        let named = select(self.cx.cache::<GatewayConnectorView>()?, interest.connectors.iter());
        let mut memory = self.office.state();
        memory.retain_released(&interest.connectors);
        let connectors = named.into_iter().map(|(key, connector)| {
            let seen = ConnectorInfo {
                uid: connector.meta().uid.to_owned(),
                released: memory.is_released(&connector),
                gateway_listed: connector.lists_gateway(&self.office.replica.endpoint_id),
                details: connector.status.connection_details.clone(),
            };
            (key, seen)
        });
        Ok(connectors.collect())
    }

    fn claims(&self, interest: &TableReferences) -> Result<BTreeMap<String, Claim>> {
        let cache = self.cx.cache::<HostnameClaim>()?;
        if interest.has_wildcards() {
            let mut claims = cache.list();
            claims.retain(|claim| interest.names_hostname(View::meta(&**claim).name));
            let claims = claims.iter();
            return Ok(claims
                .map(|it| (View::meta(&**it).name.to_owned(), claim_from_object(it)))
                .collect());
        }
        let claims = interest.hostnames.iter().filter_map(|hostname| {
            let found = cache.get(&ObjectKey::new(None, hostname))?;
            Some((hostname.clone(), claim_from_object(&found)))
        });
        Ok(claims.collect())
    }

    fn certificates(
        &self,
        interest: &TableReferences,
    ) -> Result<BTreeMap<ObjectKey, crate::control::state::CertificateResult>> {
        let secrets = select(self.cx.cache::<TlsSecretView>()?, interest.secrets.iter());
        let mut memory = self.office.state();
        memory.retain_certificates(&interest.secrets);
        let certificates = secrets.into_iter();
        Ok(certificates
            .map(|(key, secret)| (key, memory.certificate(&secret)))
            .collect())
    }

    fn domains(&self) -> Result<BTreeSet<String>> {
        let classes = self.cx.cache::<ConnectorClass>()?.list();
        let domains = classes.iter().filter_map(|class| class.spec.domain.as_deref());
        Ok(domains.map(str::to_ascii_lowercase).collect())
    }

    fn labels(&self, claims: &BTreeMap<String, Claim>) -> Result<BTreeSet<String>> {
        let proxies = self.cx.cache::<ProxyView>()?;
        let labels = claims.keys().filter_map(|hostname| Some(split_canonical(hostname)?.0));
        let given = labels.filter(|label| !proxies.by_index(BY_LABEL, label).is_empty());
        Ok(given.map(str::to_owned).collect())
    }

    fn relays(&self) -> Result<BTreeSet<RelayUrl>> {
        let classes = self.cx.cache::<ConnectorClass>()?.list();
        let relays = classes.iter().flat_map(|class| &class.spec.relays);
        Ok(self.office.allowed_relays(relays))
    }

    /// The API server has validated that they are networks.
    fn networks(&self) -> Result<BTreeMap<String, Vec<IpNet>>> {
        let mut classes = self.cx.cache::<ConnectorClass>()?.list();
        classes.retain(|class| class.spec.controller_name == CONTROLLER);
        let networks = classes.iter().map(|class| {
            let networks = class.spec.backend_networks.iter();
            let parsed = networks.filter_map(|it| it.parse().ok()).collect();
            (View::meta(&**class).name.to_owned(), parsed)
        });
        Ok(networks.collect())
    }
}

fn claim_from_object(claim: &HostnameClaim) -> Claim {
    let created = claim.metadata.creation_timestamp.as_ref();
    Claim {
        claimant: claim.spec.claimant.clone(),
        created: created.map(|it| it.0.to_string()).unwrap_or_default(),
    }
}

fn select<'a, V: View>(cache: &Cache<V>, keys: impl Iterator<Item = &'a ObjectKey>) -> BTreeMap<ObjectKey, Arc<V>> {
    keys.filter_map(|key| Some((key.clone(), cache.get(key)?))).collect()
}

fn observed_version<V: View>(cache: &Cache<V>) -> String {
    let version = cache.freshness().list_version;
    version.map(|version| version.to_string()).unwrap_or_default()
}

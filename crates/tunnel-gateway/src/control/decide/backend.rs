//! Where requests go: through the agent of a Connector, or to addresses. Everything a backend names is
//! looked for in the namespace of its route and nowhere else.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use aplomb::ObjectKey;
use aplomb_api::tunnel::annotations;
use ipnet::IpNet;
use iroh::RelayUrl;
use rustls::sign::CertifiedKey;

use super::hostname_claims::{ServedGateway, listener_covers, sibling_key};
use crate::control::inputs::{ConnectorInfo, TableInputs};
use crate::control::views::{ListenerView, ObjectReference, SliceView};
use crate::reason;
use crate::routing::{Addresses, AgentTarget, OriginAddress, OriginTarget, RouteAction, RoutingTable};

pub(super) struct BackendResolver<'a> {
    inputs: &'a TableInputs,
    targets: BTreeMap<&'a ObjectKey, Arc<AgentTarget>>,
}

impl<'a> BackendResolver<'a> {
    pub(super) fn new(world: &'a TableInputs) -> Self {
        let all = world.connectors.iter();
        let targets = all.filter_map(|(key, connector)| Some((key, Arc::new(agent_target(world, key, connector)?))));
        Self {
            targets: targets.collect(),
            inputs: world,
        }
    }

    /// What becomes of requests to a backend. What is missing may come and is said to the client; what
    /// can never work is an error.
    pub(super) fn resolve(
        &self,
        to: &ObjectReference,
        namespace: &str,
        opened: &[IpNet],
    ) -> Result<RouteAction, String> {
        if to.namespace.as_deref().is_some_and(|it| it != namespace) {
            return Err("a backend must be in the namespace of its route".to_owned());
        }
        let port = to.port.and_then(|port| u16::try_from(port).ok());
        let port = port.filter(|port| *port > 0).ok_or("a backend needs a port")?;
        let key = sibling_key(namespace, &to.name);
        let kind = (
            to.group.as_deref().unwrap_or(""),
            to.kind.as_deref().unwrap_or("Service"),
        );
        match kind {
            ("discovery.k8s.io", "EndpointSlice") => match self.inputs.slices.get(&key) {
                Some(slice) => self.resolve_slice(slice, port, opened),
                None => Ok(no_backend(502, reason::ORIGIN_UNREACHABLE)),
            },
            ("aplomb.dev", "Connector") => Ok(self.agent_action(&key, format!("localhost:{port}"), None)),
            (group, kind) => Err(format!(
                "{kind} of {group:?} is not supported as a backend: use EndpointSlice or Connector"
            )),
        }
    }

    fn resolve_slice(&self, slice: &SliceView, port: u16, opened: &[IpNet]) -> Result<RouteAction, String> {
        let marks = &slice.metadata.annotations;
        let dialled = marks.get(annotations::ENDPOINT).map(|it| parse_endpoint(it));
        let dialled = dialled.transpose()?;
        let tls = dialled.as_ref().filter(|it| it.https).map(|it| {
            let said = marks.get(annotations::TLS_HOSTNAME);
            said.cloned().unwrap_or_else(|| it.host.clone())
        });
        if let Some(connector) = marks.get(annotations::CONNECTOR) {
            let key = sibling_key(slice.metadata.namespace(), connector);
            let authority = dialled.map_or_else(|| format!("localhost:{port}"), |it| it.authority);
            return Ok(self.agent_action(&key, authority, tls));
        }
        let ready = slice.endpoints.iter().filter(|it| it.conditions.ready != Some(false));
        let mut addresses: Vec<_> = ready
            .flat_map(|endpoint| &endpoint.addresses)
            .map(|address| with_port(address, port))
            .collect();
        addresses.sort();
        let Some(first) = addresses.first() else {
            return Ok(no_backend(502, reason::ORIGIN_UNREACHABLE));
        };
        let authority = dialled.map_or_else(|| first.clone(), |it| it.authority);
        Ok(RouteAction::Forward(Arc::new(OriginTarget {
            target: OriginAddress::Addresses(Addresses {
                names: addresses,
                open_networks: opened.to_vec(),
            }),
            authority,
            tls,
        })))
    }

    fn agent_action(&self, connector: &ObjectKey, authority: String, tls: Option<String>) -> RouteAction {
        match self.targets.get(connector) {
            Some(target) => RouteAction::Forward(Arc::new(OriginTarget {
                target: OriginAddress::Connector(target.clone()),
                authority,
                tls,
            })),
            None if self.inputs.connectors.contains_key(connector) => no_backend(503, reason::CONNECTOR_OFFLINE),
            None => no_backend(503, reason::CONNECTOR_NOT_FOUND),
        }
    }
}

fn no_backend(status: u16, reason: &'static str) -> RouteAction {
    RouteAction::NoBackend { status, reason }
}

/// How an agent is reached; `None` if it has never said so, or not in a way that can be used.
fn agent_target(world: &TableInputs, key: &ObjectKey, connector: &ConnectorInfo) -> Option<AgentTarget> {
    let details = connector.details.as_ref()?;
    let (id, relay) = (&details.public_key.id, details.public_key.home_relay.clone());
    let usable = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let addresses = details.public_key.addresses.iter();
    let mut addresses: Vec<SocketAddr> = addresses
        .filter_map(|it| Some(SocketAddr::new(it.address.parse().ok()?, it.port)))
        .collect();
    addresses.sort();
    usable.then(|| AgentTarget {
        namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
        name: key.name.to_string(),
        uid: connector.uid.clone(),
        id: id.to_ascii_lowercase(),
        session: details.session.clone(),
        relay: relay.filter(|it| is_relay_allowed(world, it)),
        addresses,
        released: connector.released,
    })
}

/// Whether an administrator allows a relay, however it is written: agents write URLs as iroh does.
fn is_relay_allowed(world: &TableInputs, relay: &str) -> bool {
    let url = relay.parse::<RelayUrl>();
    url.is_ok_and(|url| world.relays.contains(&url))
}

struct BackendUrl {
    https: bool,
    host: String,
    authority: String,
}

fn parse_endpoint(url: &str) -> Result<BackendUrl, String> {
    let wrong = || format!("endpoint {url:?} is invalid: use http://host:port");
    let uri: http::Uri = url.parse().map_err(|_| wrong())?;
    let https = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong()),
    };
    let host = uri.host().ok_or_else(wrong)?;
    let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
    Ok(BackendUrl {
        https,
        host: host.trim_matches(['[', ']']).to_owned(),
        authority: format!("{host}:{port}"),
    })
}

fn with_port(address: &str, port: u16) -> String {
    match address.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, port).to_string(),
        Err(_) => format!("{address}:{port}"),
    }
}

pub(super) fn add_certificates(table: &mut RoutingTable, world: &TableInputs, holding: &ServedGateway<'_>) {
    for served in &holding.hostnames {
        let narrowest = holding
            .listeners
            .iter()
            .filter(|(it, _)| &*it.protocol == "HTTPS")
            .filter(|(_, hostname)| listener_covers(hostname, &served.hostname))
            .max_by_key(|(_, hostname)| (!hostname.starts_with('*'), hostname.len()));
        let namespace = holding.gateway.gateway.metadata.namespace();
        let shown = narrowest.and_then(|(listener, _)| usable_certificate(world, namespace, listener));
        if let Some(shown) = shown {
            table.certificates.insert(served.hostname.clone(), shown);
        }
    }
}

fn usable_certificate(world: &TableInputs, namespace: &str, listener: &ListenerView) -> Option<Arc<CertifiedKey>> {
    let secret = |it: &&ObjectReference| {
        it.kind.as_deref().is_none_or(|kind| kind == "Secret")
            && it.group.as_deref().is_none_or(str::is_empty)
            && it.namespace.as_deref().is_none_or(|it| it == namespace)
    };
    let mut refs = listener.tls.iter().flat_map(|tls| &tls.certificate_refs).filter(secret);
    refs.find_map(|it| {
        let found = world.certificates.get(&sibling_key(namespace, &it.name))?;
        found.as_ref().ok().cloned()
    })
}

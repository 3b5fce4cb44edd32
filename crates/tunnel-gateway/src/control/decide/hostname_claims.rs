//! Which Gateway serves which hostname. Between two that may, the older one does; between a Gateway without
//! an HTTPProxy and a claim, the one that had the hostname first.

use std::collections::{BTreeMap, BTreeSet};

use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::reasons::HOSTNAME_IN_USE;
use aplomb_api::tunnel::{canonical_hostname, is_canonical, split_canonical};

use super::admission::{AcceptedGateway, GatewayOwner};
use super::omissions::Omissions;
use super::rules::{CompiledRoute, RankedRoute};
use crate::control::inputs::TableInputs;
use crate::control::views::{ListenerView, ObjectReference};
use crate::routing::Protocols;

#[derive(Debug)]
pub(super) struct ServedGateway<'a> {
    pub(super) gateway: &'a AcceptedGateway<'a>,
    /// The listeners that are served, with their hostnames.
    pub(super) listeners: Vec<(&'a ListenerView, String)>,
    pub(super) hostnames: Vec<ServedHostname<'a>>,
    attached: Vec<&'a CompiledRoute<'a>>,
}

/// A hostname, and the matches of all routes under it.
#[derive(Debug)]
pub(super) struct ServedHostname<'a> {
    pub(super) hostname: String,
    pub(super) protocols: Protocols,
    pub(super) routes: Vec<(&'a RankedRoute, Protocols)>,
}

impl<'a> ServedGateway<'a> {
    pub(super) fn routes(&self) -> impl Iterator<Item = &'a CompiledRoute<'a>> {
        self.attached.iter().copied()
    }
}

/// What each Gateway serves; those that serve nothing are left out.
pub(super) fn served_gateways<'a>(
    world: &TableInputs,
    admitted: &'a [AcceptedGateway<'a>],
    compiled: &'a [CompiledRoute<'a>],
    notes: &mut Omissions,
) -> Vec<ServedGateway<'a>> {
    let mut attached: BTreeMap<usize, Vec<AttachedRef<'a>>> = BTreeMap::new();
    for route in compiled {
        for (number, how) in &route.parents {
            let attachment = AttachedRef { route, parent_ref: how };
            attached.entry(*number).or_default().push(attachment);
        }
    }
    let first = unowned_first(world, admitted);
    let mut taken = BTreeSet::new();
    let mut holdings = Vec::new();
    for (number, gateway) in admitted.iter().enumerate() {
        let attached = attached.remove(&number).unwrap_or_default();
        let mut served = Vec::new();
        let listeners = served_listeners(gateway, notes);
        for wanted in requested_hostnames(&listeners, &attached) {
            let hostname = &wanted.hostname;
            let mut allowed = check_entitled(world, &first, gateway, hostname);
            if allowed.is_ok() && !taken.insert(hostname.clone()) {
                allowed = Err(format!("{HOSTNAME_IN_USE}: an older Gateway serves {hostname}"));
            }
            match allowed {
                Ok(()) => served.push(wanted),
                Err(reason) => report_refusal(gateway, &reason, notes),
            }
        }
        if !served.is_empty() {
            let mut routes: Vec<_> = attached.iter().map(|it| it.route).collect();
            routes.dedup_by(|one, other| std::ptr::eq(*one, *other));
            holdings.push(ServedGateway {
                gateway,
                listeners,
                hostnames: served,
                attached: routes,
            });
        }
    }
    holdings
}

/// A route, and the reference by which it is attached.
struct AttachedRef<'a> {
    route: &'a CompiledRoute<'a>,
    parent_ref: &'a ObjectReference,
}

/// The hostnames that a Gateway asks for, each with the matches under it.
fn requested_hostnames<'a>(
    listeners: &[(&ListenerView, String)],
    attached: &[AttachedRef<'a>],
) -> Vec<ServedHostname<'a>> {
    let mut wanted: BTreeMap<String, RequestedRoutes> = BTreeMap::new();
    for (listener, hostname) in listeners {
        let protocols = listener_protocols(listener);
        // A request is for the most specific of the listeners that have its hostname.
        let nearer = |found: &String| {
            let mut others = listeners.iter();
            others.any(|(other, name)| {
                other.protocol == listener.protocol
                    && name != hostname
                    && listener_covers(hostname, name)
                    && listener_covers(name, found)
            })
        };
        for (number, it) in attached.iter().enumerate() {
            let found = route_hostnames(it, listener, hostname).into_iter();
            for hostname in found.filter(|it| !nearer(it)) {
                let wanted = wanted.entry(hostname).or_default();
                wanted.protocols = wanted.protocols.union(protocols);
                let route = wanted.routes.entry(number).or_default();
                *route = route.union(protocols);
            }
        }
        let wanted = wanted.entry(hostname.clone()).or_default();
        wanted.protocols = wanted.protocols.union(protocols);
    }
    let wanted = wanted.into_iter();
    wanted
        .map(|(hostname, wanted)| ServedHostname {
            hostname,
            protocols: wanted.protocols,
            routes: attached_matches(attached, wanted.routes),
        })
        .collect()
}

/// What a Gateway asks for under a hostname: over which protocols, and which routes by their number.
#[derive(Default)]
struct RequestedRoutes {
    protocols: Protocols,
    routes: BTreeMap<usize, Protocols>,
}

/// The matches of routes. One that is attached by two references counts once, over the protocols of both.
fn attached_matches<'a>(
    attached: &[AttachedRef<'a>],
    routes: BTreeMap<usize, Protocols>,
) -> Vec<(&'a RankedRoute, Protocols)> {
    let mut once: Vec<(&'a CompiledRoute<'a>, Protocols)> = Vec::new();
    for (number, protocols) in routes {
        let route = attached[number].route;
        match once.last_mut().filter(|it| std::ptr::eq(it.0, route)) {
            Some(known) => known.1 = known.1.union(protocols),
            None => once.push((route, protocols)),
        }
    }
    let matches =
        |(route, protocols): (&'a CompiledRoute<'a>, Protocols)| route.matches.iter().map(move |it| (it, protocols));
    once.into_iter().flat_map(matches).collect()
}

/// The listeners of a Gateway that can be served, with their hostnames.
fn served_listeners<'g>(gateway: &AcceptedGateway<'g>, notes: &mut Omissions) -> Vec<(&'g ListenerView, String)> {
    let all = &gateway.gateway.spec.listeners;
    let mut listeners = Vec::new();
    for listener in all {
        let hostname = listener.hostname.as_deref().and_then(normalize);
        let Some(hostname) = hostname.filter(|_| is_http(listener)) else {
            let reason = format!("listener {} needs a hostname and protocol HTTP or HTTPS", listener.name);
            report_refusal(gateway, &reason, notes);
            continue;
        };
        let same = |it: &&ListenerView| {
            let other = it.hostname.as_deref().and_then(normalize);
            it.protocol == listener.protocol && other.is_some_and(|it| listener_covers(&it, &hostname))
        };
        let port = served_port(all.iter().filter(same));
        if port == Some(listener.port) {
            listeners.push((listener, hostname));
        } else {
            let (name, own) = (&listener.name, listener.port);
            let port = port.unwrap_or_default();
            let reason = format!("listener {name}: port {own} is not served, port {port} of {hostname} is");
            report_refusal(gateway, &reason, notes);
        }
    }
    listeners
}

/// The port that is served of several that have a hostname and protocol. A gateway has one socket for
/// each protocol, whatever its number: it stands for the usual port if a listener has that.
fn served_port<'l>(listeners: impl Iterator<Item = &'l ListenerView>) -> Option<i32> {
    let usual = |it: &&ListenerView| it.port == if listener_protocols(it).https { 443 } else { 80 };
    let least = listeners.min_by_key(|it| (!usual(it), it.port));
    least.map(|it| it.port)
}

fn listener_protocols(listener: &ListenerView) -> Protocols {
    Protocols {
        http: &*listener.protocol == "HTTP",
        https: &*listener.protocol == "HTTPS",
    }
}

/// The hostnames that a route has under a listener.
fn route_hostnames(attached: &AttachedRef<'_>, listener: &ListenerView, hostname: &str) -> Vec<String> {
    let how = attached.parent_ref;
    let meant = how.section_name.as_ref().is_none_or(|it| *it == listener.name)
        && how.port.is_none_or(|port| port == listener.port);
    let said = &attached.route.route.spec.hostnames;
    match said.is_empty() {
        _ if !meant => Vec::new(),
        true => vec![hostname.to_owned()],
        false => said
            .iter()
            .filter_map(|it| intersection(hostname, &normalize(it)?))
            .collect(),
    }
}

/// Reports why a Gateway does not serve something. For an HTTPProxy's Gateway nothing is reported: its
/// hostnames may be claimed shortly, and its operator waits for that.
fn report_refusal(gateway: &AcceptedGateway<'_>, reason: &str, notes: &mut Omissions) {
    if gateway.owner == GatewayOwner::Unowned {
        notes.quarantine(&gateway.gateway.metadata, gateway.owner, reason);
    }
}

/// A hostname as tables have it; `None` for what cannot be one.
pub(super) fn normalize(hostname: &str) -> Option<String> {
    let hostname = hostname.to_ascii_lowercase();
    let rest = hostname.strip_prefix("*.").unwrap_or(&hostname);
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (hostname.len() <= 253 && rest.split('.').all(label)).then_some(hostname)
}

/// The more specific of the two, if one covers the other.
pub(super) fn intersection(listener: &str, route: &str) -> Option<String> {
    if listener == route || wildcard_covers(listener, route) {
        return Some(route.to_owned());
    }
    wildcard_covers(route, listener).then(|| listener.to_owned())
}

/// Whether a listener has a hostname: its own, or one that its wildcard covers.
pub(super) fn listener_covers(listener: &str, hostname: &str) -> bool {
    listener == hostname || wildcard_covers(listener, hostname)
}

/// Whether a wildcard covers a hostname or a narrower wildcard.
fn wildcard_covers(wide: &str, narrow: &str) -> bool {
    let Some(parent) = wide.strip_prefix('*') else {
        return false;
    };
    narrow.len() > parent.len() && narrow.ends_with(parent) && narrow != wide
}

/// Whether a Gateway may serve a hostname; if not, why.
pub(super) fn check_entitled(
    world: &TableInputs,
    first: &BTreeSet<String>,
    admitted: &AcceptedGateway<'_>,
    hostname: &str,
) -> Result<(), String> {
    let claim = world.claims.get(hostname);
    let claim = claim.filter(|_| !first.contains(hostname));
    let domain = hostname.split_once('.').map_or("", |(_, domain)| domain);
    match admitted.owner {
        GatewayOwner::Proxy => {
            let namespace = admitted.gateway.meta().namespace.unwrap_or_default();
            let claimed = claim
                .filter(|_| !is_platform_hostname(world, hostname))
                .map(|claim| &claim.claimant)
                .is_some_and(|it| it.uid == admitted.uid && it.namespace == namespace);
            let given = !domain.is_empty() && canonical_hostname(&admitted.uid, domain) == hostname;
            (claimed || given)
                .then_some(())
                .ok_or_else(|| format!("this HTTPProxy has no claim on {hostname}"))
        }
        GatewayOwner::Unowned if claim.is_some() => {
            Err(format!("{HOSTNAME_IN_USE}: {hostname} is claimed by an HTTPProxy"))
        }
        GatewayOwner::Unowned if is_canonical(hostname, domain) => {
            Err(format!("{hostname} is reserved for platform hostnames of HTTPProxies"))
        }
        GatewayOwner::Unowned => Ok(()),
    }
}

/// The claimed hostnames that a Gateway without an HTTPProxy keeps, since it was there first: its listener has
/// named the hostname since before the claim was made.
///
/// That is known only of a Gateway whose spec never changed. One that is older than a claim could have
/// taken up the hostname later, and neither its age nor its managed fields would show that. The operator
/// makes no claim while it sees any such Gateway, changed or not, and gives back one that this rule beats.
/// Within the same second the claim counts.
pub(super) fn unowned_first(world: &TableInputs, admitted: &[AcceptedGateway<'_>]) -> BTreeSet<String> {
    let unchanged =
        |it: &&AcceptedGateway<'_>| it.owner == GatewayOwner::Unowned && it.gateway.metadata.generation == Some(1);
    let mut first = BTreeSet::new();
    for gateway in admitted.iter().filter(unchanged).map(|it| it.gateway) {
        let created = gateway.metadata.creation_timestamp.as_deref().unwrap_or_default();
        let named = gateway.spec.listeners.iter().filter(|it| is_http(it));
        let named = named.filter_map(|it| normalize(it.hostname.as_deref()?));
        first.extend(named.filter(|hostname| {
            let claim = world.claims.get(hostname);
            !created.is_empty() && claim.is_some_and(|claim| created < claim.created.as_str())
        }));
    }
    first
}

pub(super) fn is_http(listener: &ListenerView) -> bool {
    matches!(&*listener.protocol, "HTTP" | "HTTPS")
}

/// Whether a hostname is one that the platform gives: under the domain of any class, or to an HTTPProxy
/// that exists. No claim counts for it, however old it is.
fn is_platform_hostname(world: &TableInputs, hostname: &str) -> bool {
    split_canonical(hostname)
        .is_some_and(|(label, domain)| world.domains.contains(domain) || world.labels.contains(label))
}

/// The key of an object in the namespace of another.
pub(super) fn sibling_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Some(namespace), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listener_and_route_have_in_common_is_the_narrower() {
        let common = |listener, route| intersection(listener, route).unwrap_or_default();
        assert_eq!(common("a.example.com", "a.example.com"), "a.example.com");
        assert_eq!(common("*.example.com", "a.example.com"), "a.example.com");
        assert_eq!(common("a.example.com", "*.example.com"), "a.example.com");
        assert_eq!(common("*.example.com", "*.b.example.com"), "*.b.example.com");
        assert_eq!(common("*.example.com", "example.com"), "");
        assert_eq!(common("a.example.com", "b.example.com"), "");
        assert_eq!(common("*.example.com", "a.badexample.com"), "");
    }

    #[test]
    fn only_what_can_be_a_hostname_is_one() {
        assert_eq!(normalize("App.Example.com").as_deref(), Some("app.example.com"));
        assert_eq!(normalize("*.example.com").as_deref(), Some("*.example.com"));
        for bad in ["", "*", "a..b", "-a.example.com", "a_b.example.com", "*.*.example.com"] {
            assert_eq!(normalize(bad), None, "{bad}");
        }
    }
}

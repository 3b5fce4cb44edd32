//! Hostnames: what a listener and a route have in common, and who may serve it.

use std::collections::BTreeSet;

use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::reasons::HOSTNAME_IN_USE;
use aplomb_api::tunnel::{canonical_hostname, is_canonical, split_canonical};

use super::admission::{AcceptedGateway, GatewayOwner};
use crate::views::ListenerView;
use crate::world::TableInputs;

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

/// Whether a listener is one that is served.
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

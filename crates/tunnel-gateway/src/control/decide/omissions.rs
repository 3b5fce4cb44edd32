//! What is to be said of a table: what it takes into account, what it leaves out, what it needs.

use std::collections::BTreeMap;
use std::fmt::Write;

use aplomb::{View, key::ResourceVersion};
use aplomb_api::tunnel::{AppliedVersions, QuarantinedRoute};
use sha2::{Digest, Sha256};

use super::admission::GatewayOwner;
use super::hostname_claims::{ServedGateway, ServedHostname, sibling_key};
use crate::control::inputs::{SessionTarget, TableInputs, TableReport};
use crate::control::views::ObjectMetaView;
use crate::routing::{OriginAddress, RouteAction, TunnelInfo};

/// Maximum length of a reason. It may contain a tenant's regular expression: in full, the GatewayReplica
/// could be rejected for its size, and the replica would count as dead.
const MAX_REASON_BYTES: usize = 512;
/// The longest relay that a record takes.
const MAX_RELAY_BYTES: usize = 400;

#[derive(Debug, Default)]
pub(super) struct Omissions {
    /// HTTPProxies' first: a list that is cut must not lose them.
    quarantined: BTreeMap<(bool, String, String), String>,
}

impl Omissions {
    /// Says why an object, or a part of it, is not served. What was said of it first comes first.
    pub(super) fn quarantine(&mut self, meta: &ObjectMetaView, whose: GatewayOwner, reason: &str) {
        let plain = whose == GatewayOwner::Unowned;
        let key = (plain, meta.namespace().to_owned(), meta.name.to_string());
        let said = self.quarantined.entry(key).or_default();
        if said.is_empty() {
            *said = reason.chars().take(MAX_REASON_BYTES).collect();
        } else if !said.contains(reason) && said.len() + reason.len() < MAX_REASON_BYTES {
            *said = format!("{said}; {reason}");
        }
    }

    pub(super) fn into_report(self, world: &TableInputs, holdings: &[ServedGateway<'_>]) -> TableReport {
        let quarantined = self.quarantined.into_iter();
        let relays = world.relays.iter().map(ToString::to_string);
        TableReport {
            applied: applied_versions(world),
            relays: relays.filter(|it| it.len() <= MAX_RELAY_BYTES).collect(),
            tunnels: holdings.len(),
            quarantined: quarantined
                .map(|((_, namespace, name), reason)| QuarantinedRoute {
                    namespace,
                    name,
                    reason,
                })
                .collect(),
            session_targets: session_targets(world, holdings),
        }
    }
}

/// The versions that are taken into account. A Gateway whose HTTPProxy is still to be seen is not.
fn applied_versions(world: &TableInputs) -> AppliedVersions {
    let awaited = world.gateways.iter().map(|gateway| gateway.meta());
    let awaited = awaited.filter(|meta| world.awaited.contains(meta.uid));
    let before = awaited.filter_map(|meta| match meta.version() {
        ResourceVersion::Number(number) => Some(number.saturating_sub(1)),
        ResourceVersion::Opaque(_) => None,
    });
    let mut applied = world.versions.clone();
    if let (Some(before), Ok(passed)) = (before.min(), applied.gateways.parse::<u64>()) {
        applied.gateways = before.min(passed).to_string();
    }
    applied
}

fn session_targets(world: &TableInputs, holdings: &[ServedGateway<'_>]) -> BTreeMap<aplomb::ObjectKey, SessionTarget> {
    let routes = holdings.iter().flat_map(ServedGateway::routes);
    let matches = routes.flat_map(|route| &route.matches);
    let mut wanted = BTreeMap::new();
    for ranked in matches {
        let RouteAction::Forward(origin) = &ranked.route.action else {
            continue;
        };
        let OriginAddress::Connector(target) = &origin.target else {
            continue;
        };
        let key = sibling_key(&target.namespace, &target.name);
        let listed = world.connectors.get(&key).is_some_and(|it| it.gateway_listed);
        let target = target.clone();
        wanted.entry(key).or_insert(SessionTarget {
            target,
            gateway_listed: listed,
        });
    }
    wanted
}

/// How many bytes of the digest are shown: enough that two configurations of a tunnel differ.
const DIGEST_BYTES: usize = 6;

pub(super) fn tunnel_revision(tunnel: &TunnelInfo, served: &[ServedHostname<'_>]) -> String {
    let mut digest = Sha256::new();
    let mut part = |text: &str| {
        digest.update(text.len().to_be_bytes());
        digest.update(text.as_bytes());
    };
    part(&tunnel.uid);
    part(&tunnel.generation.to_string());
    for served in served {
        part(&served.hostname);
        part(&format!("{:?}", served.protocols));
        for (ranked, protocols) in &served.routes {
            let route = &ranked.route;
            part(&format!("{protocols:?}"));
            part(&format!("{:?}", (&route.matches.wanted, &route.filters)));
            part(&format!("{:?}", (route.rule, &route.action, route.timeout)));
        }
    }
    let mut shown = String::new();
    for byte in digest.finalize().iter().take(DIGEST_BYTES) {
        // Writing to a String cannot fail.
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

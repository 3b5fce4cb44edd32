//! What TLS clients are shown: for each hostname that a Gateway serves, the first certificate of its
//! listener that can be used. A missing one is missing: nothing else of the Gateway suffers.

use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::hostname::{listener_covers, sibling_key};
use super::hostname_claims::ServedGateway;
use crate::table::RoutingTable;
use crate::views::{ListenerView, ObjectReference};
use crate::world::TableInputs;

/// Lays down the certificates of one Gateway.
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

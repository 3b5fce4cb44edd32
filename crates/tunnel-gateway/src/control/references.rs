//! Which objects matter to the current table. Events of other objects are dropped before they trigger a
//! reconcile or an acknowledgment.
//!
//! The set is updated before the caches it covers are read: later changes arrive as events, and earlier ones
//! are in the caches.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::{CLASS, annotations};

use crate::control::decide::controlling_proxy;
use crate::control::views::{GatewayView, ObjectReference, RouteView, SliceView};

/// The names that a table's objects refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableReferences {
    pub(crate) gateways: BTreeSet<ObjectKey>,
    pub(crate) hostnames: BTreeSet<String>,
    pub(crate) proxies: BTreeSet<ObjectKey>,
    pub(crate) secrets: BTreeSet<ObjectKey>,
    pub(crate) slices: BTreeSet<ObjectKey>,
    pub(crate) connectors: BTreeSet<ObjectKey>,
}

/// The current references. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferenceIndex(Arc<RwLock<TableReferences>>);

impl ReferenceIndex {
    pub(crate) fn set(&self, interest: TableReferences) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = interest;
    }

    /// Adds references. Until a pass has computed the new set, the previous references still count.
    pub(crate) fn extend(&self, interest: &TableReferences) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.gateways.extend(interest.gateways.iter().cloned());
        held.hostnames.extend(interest.hostnames.iter().cloned());
        held.proxies.extend(interest.proxies.iter().cloned());
        held.secrets.extend(interest.secrets.iter().cloned());
        held.slices.extend(interest.slices.iter().cloned());
        held.connectors.extend(interest.connectors.iter().cloned());
    }

    pub(crate) fn matches(&self, asked: impl FnOnce(&TableReferences) -> bool) -> bool {
        asked(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) fn is_our_class(gateway: &GatewayView) -> bool {
    &*gateway.spec.gateway_class_name == CLASS
}

impl TableReferences {
    pub(crate) fn from_gateways<'a>(gateways: impl Iterator<Item = &'a GatewayView>) -> Self {
        let mut interest = Self::default();
        for gateway in gateways {
            let meta = gateway.meta();
            interest.gateways.insert(meta.key());
            let owner = controlling_proxy(meta.owners).map(|owner| ObjectKey::new(meta.namespace, owner.name));
            interest.proxies.extend(owner);
            for listener in &gateway.spec.listeners {
                let hostname = listener.hostname.as_deref();
                interest.hostnames.extend(hostname.map(str::to_ascii_lowercase));
                let refs = listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
                let secrets = refs.map(|it| ObjectKey::new(meta.namespace, &it.name));
                interest.secrets.extend(secrets);
            }
        }
        interest
    }

    /// Whether a hostname is referenced, or a wildcard would serve it.
    pub(crate) fn names_hostname(&self, hostname: &str) -> bool {
        let covered = |(at, _): (usize, &str)| {
            let wildcard = format!("*{}", &hostname[at..]);
            self.hostnames.contains(&wildcard)
        };
        self.hostnames.contains(hostname) || (self.has_wildcards() && hostname.match_indices('.').any(covered))
    }

    pub(crate) fn has_wildcards(&self) -> bool {
        let mut rest = self.hostnames.range("*.".to_owned()..);
        rest.next().is_some_and(|it| it.starts_with("*."))
    }

    /// Whether a route is attached to one of the Gateways, or requests to be.
    pub(crate) fn attaches_route(&self, route: &RouteView) -> bool {
        let namespace = route.meta().namespace;
        let mut parents = route.spec.parent_refs.iter();
        parents.any(|parent| self.gateways.contains(&ObjectKey::new(namespace, &parent.name)))
    }

    /// Adds the references of a route, including its hostnames, because a wildcard listener does not list them.
    pub(crate) fn add_route(&mut self, route: &RouteView) {
        let namespace = route.meta().namespace;
        let hostnames = route.spec.hostnames.iter().map(|it| it.to_ascii_lowercase());
        self.hostnames.extend(hostnames);
        let rules = route.spec.rules.iter().filter_map(|rule| rule.0.as_ref().ok());
        for backend in rules.flat_map(|rule| &rule.backend_refs) {
            let ObjectReference { kind, name, .. } = &backend.to;
            let key = ObjectKey::new(namespace, name);
            match kind.as_deref() {
                Some("EndpointSlice") => self.slices.insert(key),
                Some("Connector") => self.connectors.insert(key),
                _ => false,
            };
        }
    }

    pub(crate) fn add_slice(&mut self, slice: &SliceView) {
        let named = slice.metadata.annotations.get(annotations::CONNECTOR);
        let key = named.map(|name| ObjectKey::new(slice.meta().namespace, name));
        self.connectors.extend(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_matters_where_its_name_or_a_wildcard_over_it_is_named() {
        let mut interest = TableReferences::default();
        interest.hostnames.insert("a.example.org".to_owned());
        assert!(interest.names_hostname("a.example.org"));
        assert!(!interest.names_hostname("a.b.example.com"));
        interest.hostnames.insert("*.example.com".to_owned());
        assert!(interest.names_hostname("a.b.example.com"));
        assert!(!interest.names_hostname("example.com"));
        assert!(!interest.names_hostname("b.example.org"));
    }

    #[test]
    fn references_are_kept_until_a_pass_has_replaced_them() {
        let (interests, key) = (ReferenceIndex::default(), ObjectKey::new(Some("a"), "app"));
        let slices = BTreeSet::from([key.clone()]);
        interests.set(TableReferences {
            slices,
            ..TableReferences::default()
        });
        interests.extend(&TableReferences::default());
        assert!(interests.matches(|it| it.slices.contains(&key)));
        interests.set(TableReferences::default());
        assert!(!interests.matches(|it| it.slices.contains(&key)));
    }
}

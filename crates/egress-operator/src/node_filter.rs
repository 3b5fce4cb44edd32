//! Which nodes matter to which StableEgress. Watch predicates check this for every event, so that heartbeats, unused
//! labels and nodes that are not candidates are dropped.
//!
//! A reconcile sets its filter before it reads a cache, so that each change is either in what it reads or triggers it
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aplomb::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use parking_lot::RwLock;

use crate::views::{LabelMap, NodeView};

/// Which nodes one StableEgress reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeFilter {
    pub(crate) candidates: LabelSelector,
    pub(crate) gateway: LabelMap,
    /// Whether addresses matter.
    pub(crate) probes: bool,
    /// The gateway in the status.
    pub(crate) active: Option<String>,
    /// The server that holds the floating IP.
    pub(crate) server: Option<i64>,
}

impl NodeFilter {
    /// Whether a node is a candidate, is the gateway, or blocks it from being one.
    pub(crate) fn matches_node(&self, node: &NodeView) -> bool {
        let labels = &node.metadata.labels;
        self.active.as_deref() == Some(node.name())
            || (self.server.is_some() && self.server == node.server_id())
            || self.gateway.keys().any(|key| labels.contains_key(key))
            || matches(&self.candidates, labels)
    }

    /// Whether the nodes are equal in all fields that are read.
    fn same_fields(&self, old: &NodeView, new: &NodeView) -> bool {
        let (was, is) = (&old.metadata.labels, &new.metadata.labels);
        let same = |key: &str| was.get(key) == is.get(key);
        old.same_for_election(new)
            && self.label_keys().into_iter().all(same)
            && (!self.probes || old.addresses() == new.addresses())
    }

    fn label_keys(&self) -> BTreeSet<&str> {
        let labels = self.candidates.match_labels.iter().flatten();
        let expressions = self.candidates.match_expressions.iter().flatten();
        labels
            .map(|(key, _)| key.as_str())
            .chain(expressions.map(|it| it.key.as_str()))
            .chain(self.gateway.keys().map(String::as_str))
            .collect()
    }
}

/// The filters of all StableEgress objects. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFilters(Arc<RwLock<BTreeMap<ObjectKey, NodeFilter>>>);

impl NodeFilters {
    pub(crate) fn set(&self, key: &ObjectKey, interest: NodeFilter) {
        let mut all = self.0.write();
        if all.get(key) != Some(&interest) {
            all.insert(key.clone(), interest);
        }
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.0.write().remove(key);
    }

    /// Whether a change of a node is noise for all StableEgress objects.
    pub(crate) fn is_irrelevant(&self, old: &NodeView, new: &NodeView) -> bool {
        // Runs for every heartbeat: the usual case must be one comparison.
        if old.same_for_election(new)
            && old.metadata.labels == new.metadata.labels
            && old.addresses() == new.addresses()
        {
            return true;
        }
        self.with_filters(|all| {
            all.values()
                .all(|it| !(it.matches_node(old) || it.matches_node(new)) || it.same_fields(old, new))
        })
    }

    /// The StableEgress objects that a node concerns. A node that concerns none was created or deleted, since its
    /// changes are noise; all are triggered, which costs a reconcile without a call.
    pub(crate) fn affected_keys(&self, node: &NodeView) -> Vec<ObjectKey> {
        self.with_filters(|all| {
            let concerned = all.iter().filter(|(_, it)| it.matches_node(node));
            let concerned: Vec<_> = concerned.map(|(key, _)| key.clone()).collect();
            if concerned.is_empty() {
                return all.keys().cloned().collect();
            }
            concerned
        })
    }

    fn with_filters<T>(&self, act: impl FnOnce(&BTreeMap<ObjectKey, NodeFilter>) -> T) -> T {
        act(&self.0.read())
    }
}

/// Whether `selector` matches `labels`. An empty selector matches everything; an invalid requirement matches nothing.
pub(crate) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut wanted = selector.match_labels.iter().flatten();
    let mut required = selector.match_expressions.iter().flatten();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
        && required.all(|requirement| matches_requirement(requirement, labels.get(&requirement.key)))
}

fn matches_requirement(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;

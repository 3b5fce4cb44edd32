//! Which nodes matter to which StableEgress. Watch predicates check this for every event, so that
//! heartbeats, unused labels and nodes that are not candidates are dropped.
//!
//! A reconcile sets its filter before it reads a cache, so that each change is either in what it
//! reads or triggers it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use aplomb::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::selector::matches;
use crate::views::{LabelMap, NodeView};

/// Which nodes one StableEgress reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeFilter {
    /// Which nodes are candidates.
    pub(crate) candidates: LabelSelector,
    /// The gateway labels.
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
    /// Sets the filter of `key`.
    pub(crate) fn set(&self, key: &ObjectKey, interest: NodeFilter) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.get(key) != Some(&interest) {
            all.insert(key.clone(), interest);
        }
    }

    /// Removes the filter of a deleted StableEgress.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(key);
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

    /// The StableEgress objects that a node concerns. A node that concerns none was created or
    /// deleted, since its changes are noise; all are triggered, which costs a reconcile without a
    /// call.
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
        act(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn interest() -> NodeFilter {
        let labels = |key: &str| -> BTreeMap<_, _> { [(key.to_owned(), "web".to_owned())].into() };
        NodeFilter {
            candidates: LabelSelector {
                match_labels: Some(labels("candidate")),
                match_expressions: None,
            },
            gateway: labels("gateway"),
            probes: false,
            active: Some("active".to_owned()),
            server: Some(7),
        }
    }

    fn node(change: impl FnOnce(&mut Value)) -> NodeView {
        let mut node = json!({
            "metadata": {"name": "worker", "labels": {"candidate": "web", "zone": "a"}},
            "spec": {"providerID": "hcloud://1"},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
            },
        });
        change(&mut node);
        serde_json::from_value(node).expect("a node")
    }

    fn interests(probes: bool) -> NodeFilters {
        let all = NodeFilters::default();
        let interest = NodeFilter { probes, ..interest() };
        all.set(&ObjectKey::new(None, "web"), interest);
        all
    }

    type Change = fn(&mut Value);

    #[test]
    fn only_what_the_election_reads_of_a_candidate_passes() {
        let address: Change = |it| it["status"]["addresses"][0]["address"] = json!("192.0.2.2");
        let changes: [(&str, Change, bool); 8] = [
            (
                "heartbeat",
                |it| it["status"]["conditions"][0]["lastHeartbeatTime"] = json!("x"),
                true,
            ),
            (
                "other condition",
                |it| {
                    let other = json!({"type": "MemoryPressure", "status": "True"});
                    let conditions = it["status"]["conditions"].as_array_mut();
                    conditions.expect("a list").push(other);
                },
                true,
            ),
            (
                "an unused label",
                |it| it["metadata"]["labels"]["zone"] = json!("b"),
                true,
            ),
            (
                "readiness",
                |it| it["status"]["conditions"][0]["status"] = json!("Unknown"),
                false,
            ),
            (
                "candidate label",
                |it| it["metadata"]["labels"]["candidate"] = json!("other"),
                false,
            ),
            (
                "gateway label",
                |it| it["metadata"]["labels"]["gateway"] = json!("web"),
                false,
            ),
            ("cordon", |it| it["spec"]["unschedulable"] = json!(true), false),
            ("server", |it| it["spec"]["providerID"] = json!("hcloud://2"), false),
        ];
        for (what, change, noise) in changes {
            let all = interests(false);
            assert_eq!(all.is_irrelevant(&node(|_| {}), &node(change)), noise, "{what}");
        }
        let seen = |probes| interests(probes).is_irrelevant(&node(|_| {}), &node(address));
        assert_eq!(
            (seen(false), seen(true)),
            (true, false),
            "addresses, where they are probed"
        );
    }

    #[test]
    fn changes_of_an_irrelevant_node_are_ignored_until_it_appears_or_goes() {
        let foreign = |ready: &'static str| {
            node(move |it| {
                it["metadata"]["labels"] = json!({});
                it["status"]["conditions"][0]["status"] = json!(ready);
            })
        };
        let all = interests(false);
        assert!(all.is_irrelevant(&foreign("True"), &foreign("False")));
        assert_eq!(all.affected_keys(&foreign("True")), [ObjectKey::new(None, "web")]);
    }

    #[test]
    fn the_gateway_and_the_holder_matter_without_any_label() {
        let bare = |name: &'static str, server: i64| {
            node(move |it| {
                it["metadata"] = json!({"name": name});
                it["spec"]["providerID"] = json!(format!("hcloud://{server}"));
            })
        };
        assert!(interest().matches_node(&bare("active", 1)));
        assert!(interest().matches_node(&bare("worker", 7)));
        assert!(!interest().matches_node(&bare("worker", 1)));
    }
}

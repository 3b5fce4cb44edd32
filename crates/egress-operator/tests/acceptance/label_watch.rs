//! Records every version of every Node, by any writer, and which nodes were labeled when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_api::egress::labels::GATEWAY;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Change;
use tokio::time::Instant;

/// The nodes with the gateway label of each StableEgress, from the first label on.
#[derive(Clone, Default)]
pub struct Labelled(Arc<Mutex<BTreeMap<String, Vec<Moment>>>>);

/// From `at` on, `nodes` were labeled.
#[derive(Clone, Debug)]
pub struct Moment {
    pub at: Instant,
    pub nodes: BTreeSet<String>,
}

impl Labelled {
    /// Follows the objects of a resource: `nodes`, or `ciliumnodes` of `cilium.io`.
    pub fn follow(server: &ApiServer, resource: &'static str) -> Self {
        let seen = Self::default();
        let sees = seen.clone();
        server.on_commit(Arc::new(move |change| {
            if change.key.resource.resource == resource {
                sees.record_change(change);
            }
        }));
        seen
    }

    fn record_change(&self, change: &Change) {
        let label = |object: &Option<Arc<serde_json::Value>>| {
            let value = object.as_ref()?.pointer("/metadata/labels")?.get(GATEWAY)?;
            Some(value.as_str()?.to_owned())
        };
        let (old, new) = (label(&change.old), label(&change.new));
        if old == new {
            return;
        }
        if let Some(egress) = old {
            self.update_nodes(&egress, |nodes| nodes.remove(&change.key.name));
        }
        if let Some(egress) = new {
            self.update_nodes(&egress, |nodes| nodes.insert(change.key.name.clone()));
        }
    }

    fn update_nodes(&self, egress: &str, act: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let mut all = self.0.lock().unwrap();
        let moments = all.entry(egress.to_owned()).or_default();
        let mut nodes = moments.last().map(|it| it.nodes.clone()).unwrap_or_default();
        act(&mut nodes);
        moments.push(Moment {
            at: Instant::now(),
            nodes,
        });
    }

    /// Every change.
    pub fn moments(&self, egress: &str) -> Vec<Moment> {
        let all = self.0.lock().unwrap();
        all.get(egress).cloned().unwrap_or_default()
    }

    /// The nodes labeled now.
    pub fn current_nodes(&self, egress: &str) -> BTreeSet<String> {
        let last = self.moments(egress).pop();
        last.map(|it| it.nodes).unwrap_or_default()
    }

    /// The node labeled now, if there is exactly one.
    pub fn single_node(&self, egress: &str) -> Option<String> {
        let mut now = self.current_nodes(egress);
        now.pop_first().filter(|_| now.is_empty())
    }

    /// The largest number of nodes labeled at the same time.
    pub fn max_nodes(&self, egress: &str) -> usize {
        let moments = self.moments(egress);
        moments.iter().map(|it| it.nodes.len()).max().unwrap_or(0)
    }

    /// How long no node was labeled, since the first label.
    pub fn time_without_node(&self, egress: &str) -> Duration {
        let moments = self.moments(egress);
        let ends = moments.iter().skip(1).map(|it| it.at);
        let ends = ends.chain([Instant::now()]);
        let without = moments.iter().zip(ends).filter(|(it, _)| it.nodes.is_empty());
        without.map(|(it, end)| end - it.at).sum()
    }
}

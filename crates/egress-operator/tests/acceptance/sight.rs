//! Sees every version of every Node, whoever writes it, and remembers who was labelled when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_api::egress::labels::GATEWAY;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Change;
use tokio::time::Instant;

/// Who carried the gateway label of each StableEgress, from the first moment somebody did.
#[derive(Clone, Default)]
pub struct Labelled(Arc<Mutex<BTreeMap<String, Vec<Moment>>>>);

/// From `at` on `nodes` were labelled.
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
                sees.saw(change);
            }
        }));
        seen
    }

    fn saw(&self, change: &Change) {
        let label = |object: &Option<Arc<serde_json::Value>>| {
            let value = object.as_ref()?.pointer("/metadata/labels")?.get(GATEWAY)?;
            Some(value.as_str()?.to_owned())
        };
        let (old, new) = (label(&change.old), label(&change.new));
        if old == new {
            return;
        }
        if let Some(egress) = old {
            self.note(&egress, |nodes| nodes.remove(&change.key.name));
        }
        if let Some(egress) = new {
            self.note(&egress, |nodes| nodes.insert(change.key.name.clone()));
        }
    }

    fn note(&self, egress: &str, act: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let mut all = self.0.lock().unwrap();
        let moments = all.entry(egress.to_owned()).or_default();
        let mut nodes = moments
            .last()
            .map(|it| it.nodes.clone())
            .unwrap_or_default();
        act(&mut nodes);
        moments.push(Moment {
            at: Instant::now(),
            nodes,
        });
    }

    /// Every moment at which it changed.
    pub fn moments(&self, egress: &str) -> Vec<Moment> {
        let all = self.0.lock().unwrap();
        all.get(egress).cloned().unwrap_or_default()
    }

    /// Who is labelled now.
    pub fn now(&self, egress: &str) -> BTreeSet<String> {
        let last = self.moments(egress).pop();
        last.map(|it| it.nodes).unwrap_or_default()
    }

    /// The one that is labelled now, if it is exactly one.
    pub fn only(&self, egress: &str) -> Option<String> {
        let mut now = self.now(egress);
        now.pop_first().filter(|_| now.is_empty())
    }

    /// How many were labelled at once, at most.
    pub fn most(&self, egress: &str) -> usize {
        let moments = self.moments(egress);
        moments.iter().map(|it| it.nodes.len()).max().unwrap_or(0)
    }

    /// How long nobody was labelled, since the first who was.
    pub fn none(&self, egress: &str) -> Duration {
        let moments = self.moments(egress);
        let ends = moments.iter().skip(1).map(|it| it.at);
        let ends = ends.chain([Instant::now()]);
        let without = moments
            .iter()
            .zip(ends)
            .filter(|(it, _)| it.nodes.is_empty());
        without.map(|(it, end)| end - it.at).sum()
    }
}

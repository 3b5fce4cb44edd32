//! Where the page's values are read. A board in a program, fixed values in a test. Reads; never waits for a server.

use aplomb::admin::{Board, State};
use aplomb::journal::Line;
use aplomb::{Cache, Kind, ObjectId};
use aplomb_api::{CoderProvisioner, CoderWorkspaceProxy, Connector, HttpProxy, StableEgress};
use serde_json::Value;
use tokio::sync::watch;

use crate::status::Objects;

/// Something that can be looked at.
pub trait Sources: Send + Sync + 'static {
    /// Whole objects of our kinds, those that somebody watches.
    fn objects(&self) -> Objects;

    /// The engines, by name.
    fn engines(&self) -> Vec<(String, State)>;

    /// What is remembered of an object, oldest first.
    fn journal(&self, object: &ObjectId) -> Vec<Line>;

    /// Moves when an object has changed.
    fn changed(&self) -> watch::Receiver<u64>;
}

impl Sources for Board {
    fn objects(&self) -> Objects {
        let mut objects = Objects::default();
        put::<HttpProxy>(&mut objects, "HTTPProxy", self.cache());
        put::<Connector>(&mut objects, "Connector", self.cache());
        put::<StableEgress>(&mut objects, "StableEgress", self.cache());
        put::<CoderProvisioner>(&mut objects, "CoderProvisioner", self.cache());
        put::<CoderWorkspaceProxy>(&mut objects, "CoderWorkspaceProxy", self.cache());
        objects
    }

    fn engines(&self) -> Vec<(String, State)> {
        Board::engines(self)
    }

    fn journal(&self, object: &ObjectId) -> Vec<Line> {
        Board::journal(self, object)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        Board::changed(self)
    }
}

fn put<K: Kind>(objects: &mut Objects, kind: &str, cache: Option<Cache<K>>) {
    let Some(cache) = cache else { return };
    let json = |object: &std::sync::Arc<K>| serde_json::to_value(&**object).ok();
    let all: Vec<Value> = cache.list().iter().filter_map(json).collect();
    objects.put(kind, all);
}

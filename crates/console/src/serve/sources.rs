//! Where the page's values are read: the admin registry of a process, fixed values in tests. Never waits for a server.

use aplomb::admin::{AdminRegistry, DebugState};
use aplomb::journal::JournalLine;
use aplomb::{Cache, Kind, ObjectRef};
use aplomb_api::{CoderProvisioner, CoderWorkspaceProxy, Connector, HttpProxy, StableEgress};
use serde_json::Value;
use tokio::sync::watch;

use crate::status::ObjectMap;

/// A source of objects, engine states and journals.
pub trait DataSources: Send + Sync + 'static {
    /// Whole objects of our kinds, if they are watched.
    fn objects(&self) -> ObjectMap;

    /// The engines, by name.
    fn engines(&self) -> Vec<(String, DebugState)>;

    /// The journal of an object, oldest first.
    fn journal(&self, object: &ObjectRef) -> Vec<JournalLine>;

    /// Changes whenever an object has changed.
    fn subscribe(&self) -> watch::Receiver<u64>;
}

impl DataSources for AdminRegistry {
    fn objects(&self) -> ObjectMap {
        let mut objects = ObjectMap::default();
        put_cache::<HttpProxy>(&mut objects, "HTTPProxy", self.cache());
        put_cache::<Connector>(&mut objects, "Connector", self.cache());
        put_cache::<StableEgress>(&mut objects, "StableEgress", self.cache());
        put_cache::<CoderProvisioner>(&mut objects, "CoderProvisioner", self.cache());
        put_cache::<CoderWorkspaceProxy>(&mut objects, "CoderWorkspaceProxy", self.cache());
        objects
    }

    fn engines(&self) -> Vec<(String, DebugState)> {
        AdminRegistry::engines(self)
    }

    fn journal(&self, object: &ObjectRef) -> Vec<JournalLine> {
        AdminRegistry::journal(self, object)
    }

    fn subscribe(&self) -> watch::Receiver<u64> {
        AdminRegistry::subscribe(self)
    }
}

fn put_cache<K: Kind>(objects: &mut ObjectMap, kind: &str, cache: Option<Cache<K>>) {
    let Some(cache) = cache else { return };
    let json = |object: &std::sync::Arc<K>| serde_json::to_value(&**object).ok();
    let all: Vec<Value> = cache.list().iter().filter_map(json).collect();
    objects.insert(kind, all);
}

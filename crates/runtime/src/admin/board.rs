//! The registry of the engines that run in one process, for the admin endpoints.
//!
//! An entry exists while its engine runs. The registry only reads what engines publish and never changes
//! them.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::{DebugState, EngineInspector};
use crate::cache::Cache;
use crate::engine::Kind;
use crate::journal::JournalLine;
use crate::key::ObjectRef;
use crate::telemetry::{self, MetricsSource, Telemetry};

/// The engines of one process, for inspection. Clones share the registry.
#[derive(Clone)]
pub struct AdminRegistry(Arc<Inner>);

struct Inner {
    entries: Mutex<Vec<Arc<EngineEntry>>>,
    changed: watch::Sender<u64>,
}

/// The registered data of one engine.
pub struct EngineEntry {
    /// The name of the engine.
    pub name: String,
    /// Its state.
    pub inspector: Arc<dyn EngineInspector>,
    /// Its metrics. Engines of one process must share it; otherwise `/metrics` repeats family names.
    pub telemetry: Telemetry,
    /// Metrics of its own.
    pub metrics: Vec<MetricsSource>,
    pub(crate) caches: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Removes an engine from the registry when dropped.
#[must_use = "the engine is removed from the registry when this is dropped"]
#[derive(Debug)]
pub struct EngineRegistration {
    board: AdminRegistry,
    entry: Arc<EngineEntry>,
}

impl Default for AdminRegistry {
    fn default() -> Self {
        Self(Arc::new(Inner {
            entries: Mutex::default(),
            changed: watch::Sender::new(0),
        }))
    }
}

impl AdminRegistry {
    /// Adds an engine.
    pub fn register(&self, entry: EngineEntry) -> EngineRegistration {
        let entry = Arc::new(entry);
        self.lock().push(entry.clone());
        self.notify_changed();
        EngineRegistration {
            board: self.clone(),
            entry,
        }
    }

    /// The state of each engine, by its name.
    #[must_use]
    pub fn engines(&self) -> Vec<(String, DebugState)> {
        let entries = self.entries();
        let each = entries.iter();
        each.map(|entry| (entry.name.clone(), entry.inspector.state()))
            .collect()
    }

    /// The states of all engines as one.
    #[must_use]
    pub fn state(&self) -> DebugState {
        let states = self.engines().into_iter().map(|(_, state)| state);
        states.fold(DebugState::default(), DebugState::merge)
    }

    /// The objects of a controller's own kind, if one of the engines has such a controller.
    #[must_use]
    pub fn cache<K: Kind>(&self) -> Option<Cache<K>> {
        let entries = self.entries();
        let mut caches = entries.iter().flat_map(|entry| &entry.caches);
        caches.find_map(|cache| cache.downcast_ref::<Cache<K>>().cloned())
    }

    /// The journal of `object` over all engines, oldest first.
    #[must_use]
    pub fn journal(&self, object: &ObjectRef) -> Vec<JournalLine> {
        let entries = self.entries();
        let journals = entries.iter().filter_map(|entry| entry.inspector.journal());
        let mut lines: Vec<JournalLine> = journals.flat_map(|journal| journal.read(object)).collect();
        lines.sort_by_key(|line| line.at);
        lines
    }

    /// Changes when an object of a controller's own kind changes, and when an engine is added or removed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Every metric of the process as OpenMetrics text.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        let mut counted: Vec<Telemetry> = Vec::new();
        for entry in self.entries() {
            entry.inspector.update_metrics();
            if !counted.iter().any(|known| known.is_same(&entry.telemetry)) {
                entry.telemetry.register(&mut registry);
                counted.push(entry.telemetry.clone());
            }
            entry.metrics.iter().for_each(|metrics| metrics.register(&mut registry));
        }
        telemetry::encoded(&registry)
    }

    /// The endpoints for all engines.
    pub fn router(&self) -> Router {
        super::router(self.clone())
    }

    /// Signals a change to followers.
    pub(crate) fn notify_changed(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }

    fn entries(&self) -> Vec<Arc<EngineEntry>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<EngineEntry>>> {
        let entries = self.0.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineEntry {
    /// An entry called `name` that counts in `telemetry`.
    #[must_use]
    pub fn new(name: &str, process: Arc<dyn EngineInspector>, telemetry: Telemetry) -> Self {
        Self {
            name: name.to_owned(),
            inspector: process,
            telemetry,
            metrics: Vec::new(),
            caches: Vec::new(),
        }
    }
}

impl Drop for EngineRegistration {
    fn drop(&mut self) {
        let entry = &self.entry;
        let stays = |other: &Arc<EngineEntry>| !Arc::ptr_eq(other, entry);
        self.board.lock().retain(stays);
        self.board.notify_changed();
    }
}

impl fmt::Debug for AdminRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

impl fmt::Debug for EngineEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.name).finish()
    }
}

//! Maps events to keys: for each watched object, which keys run and in which lane.
//!
//! Runs inside the watch tasks: synchronous, short, and it never reads from a server.

use std::any::TypeId;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use serde_json::Value;

use crate::cache::{Cache, CacheEvent};
use crate::controller::caches::ControllerCaches;
use crate::controller::workqueue::WorkQueue;
use crate::controller::{DeleteHook, Kind};
use crate::informer::{Informer, InformerSet, Scope};
use crate::key::{ObjectKey, ObjectRef};
use crate::managed_fields;
use crate::predicate::{Predicate, PredicateResult};
use crate::queue::{Lane, RunReason};
use crate::telemetry::Telemetry;
use crate::view::{MetaRef, View};

/// Connects the watches of one controller to its work queue.
pub(crate) struct EventHandlers<'a, K: Kind> {
    pub(crate) informers: &'a InformerSet,
    pub(crate) queue: Arc<WorkQueue>,
    pub(crate) primary: Cache<K>,
    pub(crate) caches: ControllerCaches,
    pub(crate) scope: Scope,
    pub(crate) manager: &'static str,
    pub(crate) telemetry: Telemetry,
}

impl<K: Kind> EventHandlers<'_, K> {
    /// The reconciled kind itself.
    pub(crate) fn watch_primary(&mut self, lens: Predicate<K>, farewell: DeleteHook) {
        let watch = self.informers.informer::<K>(self.scope.clone());
        self.watch_written(&watch);
        let desk = self.queue.clone();
        watch.listen_filtered(lens, self.manager, move |event, sight| {
            if sight != PredicateResult::Pass {
                return;
            }
            match event {
                CacheEvent::Added { new, initial, .. } => {
                    let (lane, reason) = initial_lane(&**new, *initial);
                    desk.push(&event.key(), lane, reason);
                }
                CacheEvent::Changed { old, new, .. } => {
                    let (old, new) = (View::meta(&**old), View::meta(&**new));
                    let reason = if new.deleting {
                        RunReason::Deleted
                    } else {
                        RunReason::Changed
                    };
                    if is_edit(&old, &new) {
                        desk.push_edit(&event.key(), reason);
                    } else {
                        desk.push(&event.key(), Lane::Edit, reason);
                    }
                }
                CacheEvent::Unreadable { .. } => desk.push(&event.key(), Lane::Edit, RunReason::Changed),
                CacheEvent::Deleted { .. } => {
                    desk.remove(&event.key());
                    farewell(&event.key());
                }
            }
        });
    }

    /// Children, mapped to the object that controls them by owner reference.
    pub(crate) fn watch_owned<C: Kind>(&mut self, scope: Scope, lens: Predicate<C>) {
        let scope = Scope {
            namespace: self.scope.namespace.clone(),
            ..scope
        };
        let watch = self.informers.informer::<C>(scope);
        self.watch_written(&watch);
        let desk = self.queue.clone();
        watch.listen_filtered(lens, self.manager, move |event, sight| {
            if sight != PredicateResult::Pass || event.is_initial() {
                return;
            }
            for object in event.states() {
                if let Some(owner) = owner_key::<K>(&View::meta(object)) {
                    desk.push(&owner, Lane::Input, RunReason::Input(kind_name::<C>()));
                }
            }
        });
    }

    /// An input that is read but not written.
    pub(crate) fn watch_input<T: View>(
        &mut self,
        watch: &Informer<T>,
        lens: Predicate<T>,
        map: impl Fn(&T, &Cache<K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        self.caches.insert(watch.cache());
        let (desk, primary) = (self.queue.clone(), self.primary.clone());
        let (name, required) = (kind_name::<T::Kind>(), watch.state().required);
        watch.listen_filtered(lens, self.manager, move |event, sight| {
            // Initial objects are inputs of every first run, unless the controller did not wait for this watch.
            let lane = match event.is_initial() {
                true if required => return,
                true => Lane::Resync,
                false => Lane::Input,
            };
            if sight != PredicateResult::Pass {
                return;
            }
            for object in event.states() {
                for key in map(object, &primary) {
                    desk.push(&key, lane, RunReason::Input(name));
                }
            }
        });
    }

    /// A kind this controller writes: own writes are recognized, and conflicts on it end when
    /// the cache has the newer version.
    fn watch_written<C: Kind>(&mut self, watch: &Informer<C>) {
        self.caches.insert_written(watch.cache());
        watch.cache().set_foreign_check(|old, new, manager| {
            let (old, new) = (serde_json::to_value(old), serde_json::to_value(new));
            match (old, new) {
                (Ok(old), Ok(new)) => managed_fields::is_foreign_change(&old, &new, manager),
                _ => true,
            }
        });
        let (desk, telemetry, manager) = (self.queue.clone(), self.telemetry.clone(), self.manager);
        watch.listen(move |event| {
            // Called for every event of the kind, so the usual case must be cheap.
            if !desk.has_conflicts() {
                return;
            }
            let Some(newest) = event.object() else {
                return;
            };
            let object = ObjectRef {
                kind: kind_name::<C>().into(),
                key: event.key(),
            };
            for key in desk.observed_version(&object, &View::meta(&**newest).version()) {
                let newest = serde_json::to_value(&**newest).unwrap_or_default();
                desk.record_conflict(&key, &object, &newest, (&telemetry, manager));
            }
        });
    }
}

/// The kind's name; leaked once per controller if the derive did not make it static.
pub(crate) fn kind_name<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(kind) => Box::leak(kind.into_boxed_str()),
    }
}

/// The lane of a new object. An object that was handled before a restart is not urgent; one that was not
/// handled yet is.
fn initial_lane<K: Kind>(object: &K, initial: bool) -> (Lane, RunReason) {
    match initial {
        true if is_handled(object) => (Lane::Resync, RunReason::Resync),
        // Not ahead of edits: there may be thousands of them.
        true => (Lane::Input, RunReason::Created),
        false => (Lane::Edit, RunReason::Created),
    }
}

/// Whether the desired state changed, and not only status or metadata.
fn is_edit(old: &MetaRef<'_>, new: &MetaRef<'_>) -> bool {
    old.deleting != new.deleting || new.generation.is_none() || old.generation != new.generation
}

fn is_handled<K: Kind>(object: &K) -> bool {
    let meta = View::meta(object);
    if meta.deleting {
        return false;
    }
    let Some(generation) = meta.generation else {
        return true;
    };
    let Ok(object) = serde_json::to_value(object) else {
        return false;
    };
    let status = &object["status"];
    let ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
    status["observedGeneration"] == generation
        && status["conditions"]
            .as_array()
            .is_some_and(|conditions| conditions.iter().any(ready))
}

/// The key of the object of kind `K` that controls a child. Another version of the same group
/// is the same owner.
fn owner_key<K: Kind>(child: &MetaRef<'_>) -> Option<ObjectKey> {
    let owner = child.controller()?;
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    if owner.kind != K::kind(&()) || group != K::group(&()) {
        return None;
    }
    let namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
    Some(ObjectKey::new(child.namespace.filter(|_| namespaced), &owner.name))
}

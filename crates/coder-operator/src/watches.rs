//! Setup shared by both controllers: watched Secrets, relevant changes of children, and how a
//! decision is written.

use std::sync::Arc;

use aplomb::conditions::RECONCILING;
use aplomb::{Cache, Condition, Context, EventNote, Kind, ObjectKey, Scope, View};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;

/// Index of objects by the names of their Secrets and control planes.
pub(crate) const INDEX_NAMES: &str = "names";

/// Secrets of the type used for tokens and keys.
pub(crate) fn opaque_secrets(namespace: Option<&str>) -> Scope {
    Scope {
        namespace: namespace.map(str::to_owned),
        fields: Some("type=Opaque".to_owned()),
        ..Scope::default()
    }
}

/// Whether the data and the servers of two Secrets are equal.
pub(crate) fn same_data(old: &Secret, new: &Secret) -> bool {
    old.data == new.data && old.metadata.annotations == new.metadata.annotations
}

/// Whether spec and progress of two Deployments are equal.
pub(crate) fn same_rollout(old: &Deployment, new: &Deployment) -> bool {
    let far = |it: &Deployment| {
        let status = it.status.clone().unwrap_or_default();
        let counts = (status.replicas, status.ready_replicas);
        (counts, status.updated_replicas, status.observed_generation)
    };
    old.metadata.generation == new.metadata.generation
        && old.metadata.labels == new.metadata.labels
        && far(old) == far(new)
}

/// The objects that name a Secret or control plane. A token Secret that only a control plane names
/// is found through the users of the control plane.
pub(crate) fn objects_naming<K: Kind>(
    all: &Cache<K>,
    kind: &str,
    key: &ObjectKey,
    by_plane: fn(&K) -> bool,
) -> Vec<ObjectKey> {
    let found = all.by_index(INDEX_NAMES, &format!("{kind} {key}"));
    let mut keys: Vec<_> = found.iter().map(|it| View::meta(&**it).key()).collect();
    if kind == "secret" {
        let here = |it: &&Arc<K>| by_plane(it) && View::meta(&***it).namespace == key.namespace.as_deref();
        keys.extend(all.list().iter().filter(here).map(|it| View::meta(&**it).key()));
    }
    keys
}

/// Queues status, conditions and Events of a decision. They are written at the end of the
/// reconcile, whether or not the step succeeds; `told` holds the Events of this reconcile, so that
/// each is published once.
pub(crate) fn record_plan<K: Kind>(
    cx: &Context<K>,
    status: impl Serialize,
    conditions: &[Condition],
    notes: &[EventNote],
    told: &mut Vec<EventNote>,
) {
    cx.status(status);
    // A previous step of this reconcile may have finished what it waited for.
    cx.remove_condition(RECONCILING);
    for condition in conditions {
        cx.condition(condition.clone());
    }
    for note in notes {
        if !told.contains(note) {
            told.push(note.clone());
            cx.publish_event(note.clone());
        }
    }
}

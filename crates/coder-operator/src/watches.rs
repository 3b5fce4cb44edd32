//! What both controllers are wired with: which Secrets are watched, what of a child matters, and how a
//! decision is laid down.

use std::sync::Arc;

use aplomb::conditions::RECONCILING;
use aplomb::{Cache, Condition, Context, EventNote, Kind, ObjectKey, Scope, View};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;

/// The index of objects by the names of the Secrets and control planes they name.
pub(crate) const INDEX_NAMES: &str = "names";

/// Secrets of the type that tokens and keys are in.
pub(crate) fn opaque_secrets(namespace: Option<&str>) -> Scope {
    Scope {
        namespace: namespace.map(str::to_owned),
        fields: Some("type=Opaque".to_owned()),
        ..Scope::default()
    }
}

/// Whether a Secret holds the same, and is said to be for the same.
pub(crate) fn same_data(old: &Secret, new: &Secret) -> bool {
    old.data == new.data && old.metadata.annotations == new.metadata.annotations
}

/// Whether a Deployment asks for the same and has come as far.
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

/// Those that name an object. A token's Secret that only a control plane names is found through those who
/// use one.
pub(crate) fn objects_naming<K: Kind>(
    all: &Cache<K>,
    kind: &str,
    key: &ObjectKey,
    by_plane: fn(&K) -> bool,
) -> Vec<ObjectKey> {
    let found = all.by(INDEX_NAMES, &format!("{kind} {key}"));
    let mut keys: Vec<_> = found.iter().map(|it| View::meta(&**it).key()).collect();
    if kind == "secret" {
        let here =
            |it: &&Arc<K>| by_plane(it) && View::meta(&***it).namespace == key.namespace.as_deref();
        keys.extend(
            all.list()
                .iter()
                .filter(here)
                .map(|it| View::meta(&**it).key()),
        );
    }
    keys
}

/// Lays down what was decided. Written when the pass ends, whatever becomes of the step; `told` keeps
/// what was told in this pass, so that each is told once.
pub(crate) fn record_plan<K: Kind>(
    cx: &Context<K>,
    status: impl Serialize,
    conditions: &[Condition],
    notes: &[EventNote],
    told: &mut Vec<EventNote>,
) {
    cx.status(status);
    // What an earlier step of this pass still waited for may be done.
    cx.retract(RECONCILING);
    for condition in conditions {
        cx.condition(condition.clone());
    }
    for note in notes {
        if !told.contains(note) {
            told.push(note.clone());
            cx.event(note.clone());
        }
    }
}

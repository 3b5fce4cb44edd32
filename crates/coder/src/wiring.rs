//! What both controllers are wired with: which Secrets are watched, what of a child matters, and how a
//! decision is laid down.

use aplomb::conditions::RECONCILING;
use aplomb::{Condition, Context, Kind, Note, Scope};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;

/// Secrets of the type that tokens and keys are in.
pub(crate) fn opaque(namespace: Option<&str>) -> Scope {
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

/// Lays down what was decided. Written when the pass ends, whatever becomes of the step; `told` keeps
/// what was told in this pass, so that each is told once.
pub(crate) fn say<K: Kind>(
    cx: &Context<K>,
    status: impl Serialize,
    conditions: &[Condition],
    notes: &[Note],
    told: &mut Vec<Note>,
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

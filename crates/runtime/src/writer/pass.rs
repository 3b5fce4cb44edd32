//! One pass over one object: its owner, its writes, and the status to write at its end.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use tokio::time::Instant;

use crate::conditions::{Condition, ConditionChanges, STALLED};
use crate::error::Result;
use crate::journal::{Journal, JournalEntry};
use crate::key::{ObjectKey, ObjectRef};
use crate::managed_fields::written_by;
use crate::nulls;

use super::Writer;
use super::desired::{OwnerRef, drop_nulls};
use super::kind::ErasedKind;
use super::known::LiveObjects;

/// The object of a pass: the owner of its children, with the status to write.
pub struct PassOwner {
    pub(super) kind: ErasedKind,
    pub(super) id: ObjectRef,
    pub(super) uid: String,
    pub(super) generation: Option<i64>,
    pub(super) known: Option<Arc<dyn LiveObjects>>,
    /// Reduces a status to the fields that the type declares; the server rejects others.
    pub(super) declared: fn(Value) -> Result<Value>,
    pub(super) finalizers: Vec<&'static str>,
    /// Whether the controller writes the owner's status, so that managedFields show an earlier pass.
    pub(super) has_status: bool,
    pub(super) read: Value,
}

impl PassOwner {
    /// The owner of a pass that began with `object`, cached in `known` if it is watched.
    pub fn new<K>(object: &K, known: Option<Arc<dyn LiveObjects>>) -> Result<Self>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let meta = object.meta();
        let key = ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
        Ok(Self {
            id: kind.object_ref(key),
            kind,
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation,
            known,
            declared: |object| Ok(serde_json::to_value(nulls::read::<K>(&object)?)?),
            finalizers: Vec::new(),
            has_status: true,
            read: serde_json::to_value(object)?,
        })
    }

    /// Sets the finalizers of the owner that the writing controller removes.
    #[must_use]
    pub fn with_finalizers(mut self, names: &[&'static str]) -> Self {
        self.finalizers = names.to_vec();
        self
    }

    /// Sets that the writing controller writes no status of the owner.
    #[must_use]
    pub(crate) fn without_status(mut self, without: bool) -> Self {
        self.has_status = !without;
        self
    }

    pub(super) fn controller(&self) -> OwnerRef<'_> {
        OwnerRef {
            kind: &self.kind,
            key: &self.id.key,
            uid: &self.uid,
        }
    }
}

impl fmt::Debug for PassOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("id", &self.id)
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}

/// The writes of one pass. Created by the engine for each run, and dropped with it.
pub struct Pass {
    pub(super) writer: Writer,
    pub(super) owner: PassOwner,
    journal: Journal,
    state: Mutex<PassState>,
}

#[derive(Default)]
pub(super) struct PassState {
    /// Every child this pass wants, written or not: prune deletes the others.
    pub(super) desired: BTreeSet<ObjectRef>,
    /// The owner in the last response of this pass.
    pub(super) last_answer: Option<Value>,
    /// Whether the owner is known to be deleted, or was deleted when its finalizer was removed.
    pub(super) owner_deleted: bool,
    /// Whether anything was written.
    pub(super) first_write_at: Option<Instant>,
    pub(super) status: Option<Result<Value, String>>,
    pub(super) condition_changes: ConditionChanges,
}

impl Pass {
    pub(super) fn new(writer: Writer, owner: PassOwner, journal: Journal) -> Self {
        let shown = owner.has_status && owner.read["metadata"]["managedFields"].is_array();
        let new = shown && written_by(&owner.read, writer.manager()).next().is_none();
        let children = &writer.0.children;
        let term = writer.0.fence.term();
        children.begin_pass(&owner.id.key, &owner.uid, term, new);
        Self {
            writer,
            owner,
            journal,
            state: Mutex::default(),
        }
    }

    /// Sets the status except for conditions. It is written once, when the pass ends;
    /// without this call the status is unchanged. A value that cannot be converted to JSON is an error then.
    pub fn status(&self, status: impl Serialize) {
        let status = serde_json::to_value(status).map(|mut status| {
            drop_nulls(&mut status);
            status
        });
        self.state().status = Some(status.map_err(|error| error.to_string()));
    }

    /// When this pass first changed anything on the server, if it did.
    #[must_use]
    pub fn first_write_at(&self) -> Option<Instant> {
        self.state().first_write_at
    }

    /// Sets a condition of the owner, written when the pass ends.
    pub fn condition(&self, condition: Condition) {
        self.state().condition_changes.set(condition);
    }

    /// Removes a condition of the owner when the pass ends.
    pub fn remove_condition(&self, kind: &str) {
        self.state().condition_changes.remove(kind);
    }

    /// The owner is found to be deleted: its status is not written when the pass ends.
    pub fn mark_owner_deleted(&self) {
        self.state().owner_deleted = true;
    }

    /// Whether the owner is known to be deleted, or its deletion needs nothing from this controller.
    pub(crate) fn is_owner_deleted(&self) -> bool {
        self.state().owner_deleted
    }

    /// Whether the owner's status shows `message` as the reason of a problem.
    pub(crate) fn status_contains(&self, message: &str) -> bool {
        let live = self.live();
        let conditions = live["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == STALLED && it["message"] == message)
    }

    /// The owner as it is now, including the writes of this pass.
    pub fn object<K: DeserializeOwned>(&self) -> Result<K> {
        Ok(nulls::read(&self.live())?)
    }

    /// The owner as this pass has read it: fields computed from that must not overwrite
    /// anything newer.
    pub(super) fn read(&self) -> Value {
        let answered = self.state().last_answer.clone();
        answered.unwrap_or_else(|| self.owner.read.clone())
    }

    pub(super) fn live(&self) -> Value {
        let owner = &self.owner;
        let known = owner.known.as_ref();
        known
            .and_then(|known| known.live(&owner.id.key))
            .filter(|live| live["metadata"]["uid"] == owner.uid)
            .or_else(|| self.state().last_answer.clone())
            .unwrap_or_else(|| owner.read.clone())
    }

    pub(super) fn record(&self, entry: JournalEntry) {
        self.journal.record(&self.owner.id, entry);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, PassState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

//! One pass over one object: its owner, its writes, and the status to write at its end.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::conditions::{Condition, ConditionChanges, STALLED};
use crate::error::{Error, ErrorClass, Result};
use crate::journal::{Journal, JournalEntry};
use crate::key::{ObjectKey, ObjectRef, ResourceVersion};
use crate::managed_fields::{ObjectPart, has_fields, has_finalizer_of, newest_foreign_manager, written_by};
use crate::nulls;
use crate::writer::apply::{OwnerRef, drop_nulls};
use crate::writer::send::{ApiResponse, WriteRequest};
use crate::writer::{ErasedKind, LiveObjects, Writer};

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
        self.state.lock()
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl Pass {
    /// Makes sure that the owner has the finalizer `name`, such as `example.com/cleanup`.
    pub async fn add_finalizer(&self, name: &str) -> Result<()> {
        let live = self.live();
        let mut finalizers = finalizers(&live);
        if finalizers.iter().any(|other| other == name) {
            return Ok(());
        }
        if live["metadata"]["deletionTimestamp"].is_string() {
            let what = format!("{} is being deleted; cannot add a finalizer", self.owner.id);
            return Err(Error::new(ErrorClass::Invalid, what));
        }
        finalizers.push(name.to_owned());
        self.set_finalizers(&live, &finalizers).await?;
        if self.state().owner_deleted {
            // Otherwise the pass would create something external that would never be cleaned up.
            let what = format!("{} was deleted in the meantime", self.owner.id);
            let read = live["metadata"]["resourceVersion"].as_str();
            let error = Error::new(ErrorClass::Conflict, what);
            return Err(error.with_object(self.owner.id.clone(), read.map(ResourceVersion::parse)));
        }
        Ok(())
    }

    /// Removes the finalizer `name` from the owner.
    pub async fn remove_finalizer(&self, name: &str) -> Result<()> {
        let live = self.live();
        let mut finalizers = finalizers(&live);
        let before = finalizers.len();
        finalizers.retain(|other| other != name);
        if finalizers.len() == before {
            return Ok(());
        }
        self.set_finalizers(&live, &finalizers).await
    }

    async fn set_finalizers(&self, live: &Value, finalizers: &[String]) -> Result<()> {
        let owner = &self.owner;
        let meta = &live["metadata"];
        let write = WriteRequest {
            verb: "finalizer",
            object: &owner.id,
            part: ObjectPart::Finalizers,
            live: Some(live),
            lock: None,
            known: owner.known.as_deref(),
        };
        // JSON Patch tests instead of a resource version: changes of other fields are not a conflict.
        let patch = Patch::Json::<()>(serde_json::from_value(json!([
            {"op": "test", "path": "/metadata/uid", "value": owner.uid},
            {"op": "test", "path": "/metadata/finalizers", "value": meta["finalizers"]},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]))?);
        let parameters = PatchParams {
            field_manager: Some(self.writer.manager().to_owned()),
            ..PatchParams::default()
        };
        let request = owner
            .kind
            .request(owner.id.key.namespace.as_deref())
            .patch(&owner.id.key.name, &parameters, &patch)
            .map_err(Error::fault)?;
        let answer = self.send(&write, request).await?;
        self.check_finalizer_answer(&write, answer)
    }

    fn check_finalizer_answer(&self, write: &WriteRequest<'_>, answer: ApiResponse) -> Result<()> {
        if answer.is_object_not_found() {
            self.state().owner_deleted = true;
            return Ok(());
        }
        if is_failed_test(&answer) {
            return Err(self.record_conflict(write, "another writer changed its finalizers"));
        }
        if !answer.is_success() {
            return Err(self.record_refused(write, &answer));
        }
        let mut state = self.state();
        state.owner_deleted = answer.is_deleted(false);
        state.last_answer = Some(answer.body);
        Ok(())
    }
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// A patch with a failed test gets the response of an invalid one, but without a single cause.
fn is_failed_test(answer: &ApiResponse) -> bool {
    answer.code == StatusCode::UNPROCESSABLE_ENTITY
        && answer.body["details"]["causes"].as_array().is_none_or(Vec::is_empty)
}

impl PassOwner {
    /// Whether the owner, as it was read, is being deleted and has no finalizer of `manager`.
    pub(crate) fn is_released_by(&self, manager: &str) -> bool {
        self.is_live_released_by(&self.read, manager)
    }

    /// The same for the owner's state `live`.
    pub(super) fn is_live_released_by(&self, live: &Value, manager: &str) -> bool {
        let finalizers = live["metadata"]["finalizers"].as_array();
        let mut finalizers = finalizers.into_iter().flatten().filter_map(Value::as_str);
        let declared = finalizers.any(|name| self.finalizers.contains(&name));
        is_deleting(live) && !declared && !has_finalizer_of(live, manager)
    }
}

impl Pass {
    /// A pass over an owner that is being deleted cleans up and creates nothing.
    pub(super) fn check_owner_not_deleting(&self, object: &ObjectRef) -> Result<()> {
        let owner = &self.owner;
        if !is_deleting(&owner.read) {
            return Ok(());
        }
        let what = format!(
            "apply of {object}: {} is being deleted; clean up and remove its finalizer instead",
            owner.id
        );
        Err(Error::new(ErrorClass::Invalid, what))
    }

    /// Fails if the owner of `object` no longer exists. `again`: the owner has had it,
    /// so that its absence may be the first sign of a deletion; then it is read from the server.
    pub(super) async fn require_owner(&self, object: &ObjectRef, again: bool) -> Result<()> {
        let owner = &self.owner;
        let ours = |live: &Value| live["metadata"]["uid"] == owner.uid;
        let cached = match &owner.known {
            Some(known) => known.live(&owner.id.key).filter(ours),
            None => Some(self.read()),
        };
        if let Some(cached) = cached.as_ref().filter(|cached| is_deleting(cached)) {
            return Err(self.owner_deleting_error(object, cached));
        }
        if !again && cached.is_some() {
            return Ok(());
        }
        let found = self.read_live(&owner.kind, &owner.id, None).await?;
        match found.filter(ours) {
            Some(live) if is_deleting(&live) => {
                if let Some(known) = &owner.known {
                    known.record_read(&live);
                }
                Err(self.owner_deleting_error(object, &live))
            }
            Some(_) => Ok(()),
            None => {
                self.record_owner_deleted();
                Err(self.conflict_error(object, "was deleted"))
            }
        }
    }

    /// The owner no longer exists on the server. Updates the cache, because its watch may lag.
    pub(super) fn record_owner_deleted(&self) {
        let owner = &self.owner;
        self.state().owner_deleted = true;
        if let Some(known) = &owner.known {
            known.begin_write(&owner.id.key).record_delete(&owner.uid);
        }
    }

    fn owner_deleting_error(&self, object: &ObjectRef, live: &Value) -> Error {
        if self.owner.is_live_released_by(live, self.writer.manager()) {
            self.state().owner_deleted = true;
        }
        self.conflict_error(object, "is being deleted")
    }

    fn conflict_error(&self, object: &ObjectRef, why: &str) -> Error {
        let owner = &self.owner;
        let what = format!("apply of {object}: {} {why}", owner.id);
        let read = owner.read["metadata"]["resourceVersion"].as_str();
        Error::new(ErrorClass::Conflict, what).with_object(owner.id.clone(), read.map(ResourceVersion::parse))
    }

    /// Whether `live` has the owner among its owners.
    pub(super) fn has_owner_reference(&self, live: &Value) -> bool {
        references(live).any(|it| it["uid"] == self.owner.uid)
    }

    /// Whether this controller has written `live`, or the owner owns it.
    pub(super) fn is_child(&self, live: &Value) -> bool {
        self.has_owner_reference(live) || has_fields(live, self.writer.manager())
    }

    /// Two controllers of one child would keep undoing each other's changes.
    pub(super) fn check_single_controller(&self, object: &ObjectRef, live: &Value) -> Result<()> {
        let uid = &self.owner.uid;
        let Some(other) = references(live).find(|it| it["controller"] == true && it["uid"] != *uid) else {
            return Ok(());
        };
        let name = |field: &str| other[field].as_str().unwrap_or("?").to_owned();
        let what = format!(
            "{object} is already controlled by {} {}; give one of the two another name, or delete {object} if that owner no longer needs it",
            name("kind"),
            name("name"),
        );
        Err(name_taken_error(object, live, what))
    }

    /// An object that neither this controller has written nor the owner owns belongs to others.
    /// `owned`: whether the owner can own it, which is impossible across namespaces.
    pub(super) fn check_controller(&self, object: &ObjectRef, live: &Value, owned: bool) -> Result<()> {
        if self.is_child(live) {
            return Ok(());
        }
        let manager = self.writer.manager();
        let by = newest_foreign_manager(live, manager);
        let by = by.map_or_else(String::new, |by| format!(" (written by {by})"));
        let owner = &self.owner.id;
        let ways = match owned {
            true => format!(
                "delete it, use another name, or add an ownerReference to {} {} to hand it over",
                owner.kind, owner.key.name,
            ),
            // The garbage collector would delete an object with such a reference.
            false => "delete it or use another name".to_owned(),
        };
        let what = format!("{object} exists and is not managed by {manager}{by}; {ways}");
        Err(name_taken_error(object, live, what))
    }
}

fn name_taken_error(object: &ObjectRef, live: &Value, what: String) -> Error {
    let version = live["metadata"]["resourceVersion"].as_str();
    Error::new(ErrorClass::Exists, what).with_object(object.clone(), version.map(ResourceVersion::parse))
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    let references = object["metadata"]["ownerReferences"].as_array();
    references.into_iter().flatten()
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

//! Writes that are not applies: labels and annotations of an object of others, objects that must not exist
//! yet, and deletions of children.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::key::{ObjectKey, ObjectRef};
use crate::managed_fields::{ObjectPart, has_fields};
use crate::nulls;
use crate::support::seed_of;
use crate::writer::apply::DesiredObject;
use crate::writer::pass::Pass;
use crate::writer::send::WriteRequest;
use crate::writer::{ErasedKind, LiveObjects};

/// Which labels and annotations to set, and which to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataPatch {
    /// The labels by key; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// The annotations by key; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl Pass {
    /// Sets and removes labels and annotations of an object that is not a child of the owner.
    pub async fn patch_metadata<K>(
        &self,
        key: &ObjectKey,
        change: &MetadataPatch,
        known: Option<&dyn LiveObjects>,
    ) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let object = kind.object_ref(key.clone());
        let live = known.and_then(|known| known.live(key));
        let parameters = PatchParams {
            field_manager: Some(self.writer.manager().to_owned()),
            ..PatchParams::default()
        };
        let request = kind
            .request(key.namespace.as_deref())
            .patch(&key.name, &parameters, &Patch::Merge(body(change, live.as_ref())))
            .map_err(Error::fault)?;
        let write = WriteRequest {
            verb: "relabel",
            object: &object,
            part: ObjectPart::Main,
            live: live.as_ref(),
            lock: None,
            known,
        };
        let answer = self.send(&write, request).await?;
        if answer.is_success() {
            return Ok(());
        }
        Err(self.record_refused(&write, &answer))
    }
}

/// The patch, bound to the UID that was seen: a later object of that name is another.
fn body(change: &MetadataPatch, live: Option<&Value>) -> Value {
    let mut metadata = json!({});
    for (field, values) in [("labels", &change.labels), ("annotations", &change.annotations)] {
        if !values.is_empty() {
            metadata[field] = json!(values);
        }
    }
    if let Some(uid) = live.and_then(|live| live["metadata"]["uid"].as_str()) {
        metadata["uid"] = json!(uid);
    }
    json!({ "metadata": metadata })
}

impl Pass {
    /// Creates `object` and returns it as stored by the server. If an object of that name exists, the
    /// error has class `Exists`: an apply would take it over.
    pub async fn create<K>(&self, object: &K, known: Option<&dyn LiveObjects>) -> Result<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let desired = DesiredObject::new(object, &kind, self.owner.id.key.namespace.as_deref())?;
        let id = kind.object_ref(desired.key.clone());
        let parameters = PostParams {
            field_manager: Some(self.writer.manager().to_owned()),
            ..PostParams::default()
        };
        let request = kind
            .request(id.key.namespace.as_deref())
            .create(&parameters, serde_json::to_vec(&desired.body)?)
            .map_err(Error::fault)?;
        let write = WriteRequest {
            verb: "create",
            object: &id,
            part: ObjectPart::Main,
            live: None,
            lock: None,
            known,
        };
        let answer = self.send(&write, request).await?;
        if !answer.is_success() {
            return Err(self.record_refused(&write, &answer));
        }
        Ok(nulls::read(&answer.body)?)
    }
}

impl Pass {
    /// Deletes the child `key` of kind `K`, or the owner itself, if it exists and is unchanged since it was read.
    /// Fails if another object controls it. An object of that name that this manager has not
    /// written and that is not owned by the owner is not a child, and is kept.
    pub async fn delete<K>(&self, key: &ObjectKey, known: Option<&dyn LiveObjects>) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        self.delete_if::<K>(key, known, Self::is_child).await
    }

    /// Deletes an object that need not be a child, if it exists and is unchanged since it was read.
    /// Fails if another object controls it.
    pub async fn delete_unowned<K>(&self, key: &ObjectKey, known: Option<&dyn LiveObjects>) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        self.delete_if::<K>(key, known, |_, _| true).await
    }

    async fn delete_if<K>(
        &self,
        key: &ObjectKey,
        known: Option<&dyn LiveObjects>,
        wanted: fn(&Self, &Value) -> bool,
    ) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let object = kind.object_ref(key.clone());
        let Some(live) = self.read_live(&kind, &object, known).await? else {
            return Ok(());
        };
        self.check_single_controller(&object, &live)?;
        if object != self.owner.id && !wanted(self, &live) {
            self.record_suppressed("delete", &object);
            return Ok(());
        }
        self.remove(&kind, &object, &live, known).await
    }

    /// Deletes the children of kind `K` that the owner controls and this pass has not applied, if this
    /// controller has written them: copies made by others are kept. Returns their number.
    pub async fn prune<K>(&self, known: &dyn LiveObjects) -> Result<usize>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let mut pruned = 0;
        for live in known.owned_by(&self.owner.uid) {
            let meta = &live["metadata"];
            let key = ObjectKey::new(meta["namespace"].as_str(), meta["name"].as_str().unwrap_or_default());
            let object = kind.object_ref(key);
            let controlled = |it: &Value| it["controller"] == true && it["uid"] == self.owner.uid;
            let ours = meta["ownerReferences"].as_array().into_iter().flatten().any(controlled);
            let wanted = self.state().desired.contains(&object);
            let ours = ours && has_fields(&live, self.writer.manager());
            if ours && !wanted && !meta["deletionTimestamp"].is_string() {
                self.remove(&kind, &object, &live, Some(known)).await?;
                pruned += 1;
            }
        }
        Ok(pruned)
    }

    async fn remove(
        &self,
        kind: &ErasedKind,
        object: &ObjectRef,
        live: &Value,
        known: Option<&dyn LiveObjects>,
    ) -> Result<()> {
        let text = |field: &str| live["metadata"][field].as_str();
        let write = WriteRequest {
            verb: "delete",
            object,
            part: ObjectPart::Main,
            live: Some(live),
            lock: text("resourceVersion"),
            known,
        };
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: text("uid").map(str::to_owned),
                resource_version: text("resourceVersion").map(str::to_owned),
            }),
            ..DeleteParams::default()
        };
        let request = kind
            .request(object.key.namespace.as_deref())
            .delete(&object.key.name, &parameters)
            .map_err(Error::fault)?;
        let answer = self.send(&write, request).await?;
        if answer.is_success() || answer.is_object_not_found() {
            self.writer.on_deleted(object);
            return Ok(());
        }
        Err(self.record_refused(&write, &answer))
    }
}

/// Owners are dropped when they are deleted; this bounds the rest after a missed deletion.
const MAX_OWNERS: usize = 262_144;

/// The children of every owner that this process has run a pass for.
#[derive(Debug, Default)]
pub(super) struct KnownChildren(Mutex<BTreeMap<ObjectKey, ChildHistory>>);

#[derive(Debug)]
struct ChildHistory {
    uid: String,
    /// In another term another replica may have created children.
    term: u64,
    /// Whether every child that can have existed is recorded here.
    complete: bool,
    /// Digests, to avoid a second copy of names; two equal ones cost one read.
    digests: BTreeSet<u64>,
}

impl KnownChildren {
    /// A pass over the owner `key` begins, in a term of leadership. `new`: it is the first pass ever.
    pub(super) fn begin_pass(&self, key: &ObjectKey, uid: &str, term: u64, new: bool) {
        let mut all = self.0.lock();
        let known = |past: &ChildHistory| past.uid == uid && past.term == term;
        if all.get(key).is_some_and(known) {
            return;
        }
        let past = ChildHistory {
            uid: uid.to_owned(),
            term,
            complete: new,
            digests: BTreeSet::new(),
        };
        all.insert(key.clone(), past);
        while all.len() > MAX_OWNERS {
            all.pop_first();
        }
    }

    /// The owner has this child.
    pub(super) fn record(&self, key: &ObjectKey, uid: &str, child: &ObjectRef) {
        if let Some(past) = self.0.lock().get_mut(key).filter(|past| past.uid == uid) {
            past.digests.insert(seed_of(child));
        }
    }

    /// Whether the owner has had this child, or may have had.
    pub(super) fn may_have_existed(&self, key: &ObjectKey, uid: &str, child: &ObjectRef) -> bool {
        let all = self.0.lock();
        let past = all.get(key).filter(|past| past.uid == uid);
        past.is_none_or(|past| !past.complete || past.digests.contains(&seed_of(child)))
    }

    /// The owner was deleted.
    pub(super) fn remove(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new(Some("team"), "a")
    }

    fn child(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "ConfigMap".into(),
            key: ObjectKey::new(Some("team"), name),
        }
    }

    #[test]
    fn new_owner_has_had_only_recorded_children() {
        let children = KnownChildren::default();
        children.begin_pass(&key(), "u1", 1, true);
        assert!(!children.may_have_existed(&key(), "u1", &child("x")));
        children.record(&key(), "u1", &child("x"));
        children.begin_pass(&key(), "u1", 1, false);
        assert!(children.may_have_existed(&key(), "u1", &child("x")));
        assert!(!children.may_have_existed(&key(), "u1", &child("y")));
    }

    #[test]
    fn an_owner_from_before_the_start_may_have_had_any() {
        let children = KnownChildren::default();
        assert!(children.may_have_existed(&key(), "u1", &child("x")), "not known");
        children.begin_pass(&key(), "u1", 1, false);
        assert!(children.may_have_existed(&key(), "u1", &child("x")));
    }

    #[test]
    fn in_another_term_an_owner_may_have_had_any() {
        let children = KnownChildren::default();
        children.begin_pass(&key(), "u1", 1, true);
        assert!(!children.may_have_existed(&key(), "u1", &child("x")));
        children.begin_pass(&key(), "u1", 2, false);
        assert!(children.may_have_existed(&key(), "u1", &child("x")));
    }

    #[test]
    fn an_owner_that_took_the_name_of_another_is_new() {
        let children = KnownChildren::default();
        children.begin_pass(&key(), "u1", 1, true);
        children.record(&key(), "u1", &child("x"));
        children.begin_pass(&key(), "u2", 1, true);
        assert!(!children.may_have_existed(&key(), "u2", &child("x")));
        children.record(&key(), "u1", &child("y"));
        assert!(!children.may_have_existed(&key(), "u2", &child("y")));
        children.remove(&key());
        assert!(children.may_have_existed(&key(), "u2", &child("y")));
    }
}

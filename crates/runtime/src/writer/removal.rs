//! Deletes children, one by one or because no pass wants them any more.
//!
//! Only the object that was read is deleted: a later object of the same name, or a changed child, is kept.

use kube::Resource;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::key::{ObjectKey, ObjectRef};
use crate::managed_fields::{ObjectPart, has_fields};

use super::kind::ErasedKind;
use super::known::LiveObjects;
use super::pass::Pass;
use super::send::WriteRequest;

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

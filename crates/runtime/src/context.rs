//! The input of a reconcile: the caches it declared, the writer, and a draft of its status.
//!
//! Every effect uses it, so that it is fenced, counted, journaled and visible to the next read.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::conditions::Condition;
use crate::controller::{ControllerCaches, Kind};
use crate::error::{Error, Result};
use crate::events::{EventNote, EventRecorder};
use crate::key::ObjectKey;
use crate::leadership::fence::Fence;
use crate::queue::RunReason;
use crate::view::View;
use crate::writer::{ApplyResult, LiveObjects, MetadataPatch, Pass};

/// The context of one pass over one object. Clones belong to the same pass.
pub struct Context<K>(Arc<ContextParts<K>>);

pub(crate) struct ContextParts<K> {
    pub(crate) object: Arc<K>,
    pub(crate) caches: ControllerCaches,
    pub(crate) pass: Pass,
    pub(crate) client: kube::Client,
    pub(crate) fence: Fence,
    pub(crate) term: u64,
    pub(crate) recorder: EventRecorder,
    pub(crate) reasons: Vec<RunReason>,
    pub(crate) deadline: Instant,
}

impl<K> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Kind> Context<K> {
    pub(crate) fn new(inner: ContextParts<K>) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn pass(&self) -> &Pass {
        &self.0.pass
    }

    /// The cache of a kind that this controller reconciles, owns or watches.
    ///
    /// # Errors
    /// The controller does not declare it.
    pub fn cache<T: View>(&self) -> Result<&Cache<T>> {
        self.0.caches.get::<T>().ok_or_else(|| {
            Error::fault(format!(
                "{} is not watched: declare it with .owns() or .watches()",
                std::any::type_name::<T>()
            ))
        })
    }

    /// Creates or updates a child of this object so that it has every field of `desired`, and returns it as
    /// stored by the server. Nothing is sent if the fields are equal already; other fields are left to other
    /// writers.
    ///
    /// # Errors
    /// The server rejects the write. [`ErrorClass::Exists`](crate::ErrorClass::Exists): an object of that name exists
    /// that this controller has not written. [`ErrorClass::Conflict`](crate::ErrorClass::Conflict): this object is
    /// being deleted, or was deleted.
    pub async fn apply<C: Kind>(&self, desired: C) -> Result<C> {
        Ok(self.apply_with_effect(desired).await?.object)
    }

    /// Like [`Self::apply`], and also returns what was written.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn apply_with_effect<C: Kind>(&self, desired: C) -> Result<ApplyResult<C>> {
        self.0.pass.apply(&desired, self.live_objects::<C>()).await
    }

    /// Like [`Self::apply_with_effect`], but an existing object of that name in the cache becomes a child of this one
    /// unless another object controls it. The caller must check it first.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn adopt<C: Kind>(&self, desired: C) -> Result<ApplyResult<C>> {
        self.0.pass.adopt(&desired, self.live_objects::<C>()).await
    }

    /// Applies the fields that `desired` names to an object that is not a child of this one, such as a
    /// label of a node: it gets no owner, and nothing prunes it.
    ///
    /// # Errors
    /// If the server rejects the write.
    pub async fn apply_unowned<C: Kind>(&self, desired: C) -> Result<C> {
        let known = self.live_objects::<C>();
        Ok(self.0.pass.apply_unowned(&desired, known).await?.object)
    }

    /// Creates an object that must not exist yet, such as a claim. It gets no owner. If an object of that
    /// name exists, the error has class [`ErrorClass::Exists`](crate::ErrorClass::Exists).
    ///
    /// # Errors
    /// If the server rejects the write.
    pub async fn create<C: Kind>(&self, object: &C) -> Result<C> {
        self.0.pass.create(object, self.live_objects::<C>()).await
    }

    /// Applies `status` to the status of a child whose kind expects its creator to write it.
    /// Nothing is sent if the fields are equal already.
    ///
    /// # Errors
    /// If the server rejects the write, or another object controls the child.
    pub async fn apply_child_status<C: Kind>(&self, key: &ObjectKey, status: impl Serialize) -> Result<()> {
        let known = self.live_objects::<C>();
        self.0.pass.apply_child_status::<C>(key, status, known).await
    }

    /// Sets and removes labels and annotations of an object that need not be a child of this one, by a
    /// merge patch of the values in `change` only. The cache of the view shows the result
    /// at once.
    ///
    /// # Errors
    /// If the server rejects the write; a conflict if another object of that name replaced the object.
    pub async fn patch_metadata<V: View + Serialize>(&self, key: &ObjectKey, change: &MetadataPatch) -> Result<()> {
        let known = self.0.caches.get::<V>();
        let known = known.map(|cache| -> &dyn LiveObjects { cache });
        self.0.pass.patch_metadata::<V::Kind>(key, change, known).await
    }

    /// Deletes a child, or this object itself, if it exists and is unchanged since it was read. An object of
    /// that name that this controller has not written and that does not have this object as an owner is not a
    /// child, and is kept.
    ///
    /// # Errors
    /// If the server rejects the deletion, or another object controls the child.
    pub async fn delete<C: Kind>(&self, key: &ObjectKey) -> Result<()> {
        self.0.pass.delete::<C>(key, self.live_objects::<C>()).await
    }

    /// Deletes an object that need not be a child of this one, such as a claim, if it exists and is unchanged
    /// since it was read. The caller must check it first.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub async fn delete_unowned<C: Kind>(&self, key: &ObjectKey) -> Result<()> {
        self.0.pass.delete_unowned::<C>(key, self.live_objects::<C>()).await
    }

    /// Deletes the children of kind `C` that this controller has written and this pass has not applied,
    /// and returns their number.
    ///
    /// # Errors
    /// If the server rejects a deletion, or the controller does not own the kind.
    pub async fn prune<C: Kind>(&self) -> Result<usize> {
        self.0.pass.prune::<C>(self.cache::<C>()?).await
    }

    /// Adds a finalizer to this object, until [`Self::remove_finalizer`] of the same name. The pass
    /// continues and need not run again.
    ///
    /// # Errors
    /// If the server rejects the write.
    pub async fn add_finalizer(&self, name: &str) -> Result<()> {
        self.0.pass.add_finalizer(name).await
    }

    /// Removes the finalizer `name` from this object.
    ///
    /// # Errors
    /// If the server rejects the write.
    pub async fn remove_finalizer(&self, name: &str) -> Result<()> {
        self.0.pass.remove_finalizer(name).await
    }

    /// Sets the status except for conditions. Written once, when the pass ends.
    pub fn status(&self, status: impl Serialize) {
        self.0.pass.status(status);
    }

    /// Asserts a condition of this object, written when the pass ends.
    pub fn condition(&self, condition: Condition) {
        self.0.pass.condition(condition);
    }

    /// Removes a condition of this object when the pass ends.
    pub fn remove_condition(&self, condition: &str) {
        self.0.pass.remove_condition(condition);
    }

    /// Reports that this object was deleted on the server although its watch does not show that yet. Its
    /// status is not written when the pass ends.
    pub fn object_deleted(&self) {
        self.0.pass.mark_owner_deleted();
    }

    /// Publishes an Event about this object, in the background and within a rate limit.
    pub fn publish_event(&self, note: EventNote) {
        self.0.recorder.publish(&*self.0.object, note);
    }

    /// A client with the deadline of this run and the rate limit of the API server, for calls that the
    /// writer and the caches do not cover.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.0.client.clone()
    }

    /// The right to act, for effects on other systems.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.0.fence
    }

    /// The number of this leader, counted over all replicas; 0 without leader election. To be stored with
    /// effects on other systems, so that a later leader can recognize its own.
    #[must_use]
    pub fn leader_term(&self) -> u64 {
        self.0.term
    }

    /// The deadline of this pass.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.0.deadline
    }

    fn live_objects<C: Kind>(&self) -> Option<&dyn LiveObjects> {
        let cache = self.0.caches.get::<C>()?;
        Some(cache)
    }
}

impl<K> fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("reasons", &self.0.reasons)
            .finish_non_exhaustive()
    }
}

//! What a reconcile is given: the caches it declared, the writer, and a draft of its status.
//!
//! Every effect goes through here, so that it is fenced, counted, journaled and seen by the next read.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::conditions::Condition;
use crate::engine::{ControllerCaches, Kind};
use crate::error::{Error, Result};
use crate::events::{EventNote, EventRecorder};
use crate::fence::Fence;
use crate::key::ObjectKey;
use crate::queue::RunReason;
use crate::view::View;
use crate::writer::{ApplyResult, LiveObjects, MetadataPatch, Pass};

/// The surroundings of one pass over one object. Clones are the same pass.
pub struct Context<K>(Arc<Inner<K>>);

pub(crate) struct Inner<K> {
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
    pub(crate) fn new(inner: Inner<K>) -> Self {
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

    /// Makes a child of this object as `desired` says, in every field it names, and returns it as
    /// the server has it. What is so already is not sent; fields that `desired` leaves out belong to
    /// others.
    ///
    /// # Errors
    /// The server refuses. [`ErrorClass::Exists`](crate::ErrorClass::Exists): an object of that name exists that
    /// this controller has not written. [`ErrorClass::Conflict`](crate::ErrorClass::Conflict): this object is
    /// being deleted, or was.
    pub async fn apply<C: Kind>(&self, desired: C) -> Result<C> {
        Ok(self.apply_with_effect(desired).await?.object)
    }

    /// Like [`Self::apply`], and says what had to be done for it.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn apply_with_effect<C: Kind>(&self, desired: C) -> Result<ApplyResult<C>> {
        self.0.pass.apply(&desired, self.live_objects::<C>()).await
    }

    /// Like [`Self::applied`], but an object of that name that the cache shows becomes a child of this one
    /// whoever made it, unless another object controls it. Look at it first.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn adopt<C: Kind>(&self, desired: C) -> Result<ApplyResult<C>> {
        self.0.pass.adopt(&desired, self.live_objects::<C>()).await
    }

    /// Like [`Self::apply`], but a conflict if another writer was first since the child was read: for
    /// what is computed from the child itself.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn apply_locked<C: Kind>(&self, desired: C) -> Result<C> {
        let known = self.live_objects::<C>();
        Ok(self.0.pass.apply_locked(&desired, known).await?.object)
    }

    /// Applies the fields that `desired` names to an object that is not a child of this one, such as a
    /// label of a node: it gets no owner, and nothing prunes it.
    ///
    /// # Errors
    /// As the server says.
    pub async fn apply_unowned<C: Kind>(&self, desired: C) -> Result<C> {
        let known = self.live_objects::<C>();
        Ok(self.0.pass.apply_unowned(&desired, known).await?.object)
    }

    /// Creates an object that only the first may make, such as a claim. It gets no owner, and one of its
    /// name that is there already is an error of class [`ErrorClass::Exists`](crate::ErrorClass::Exists).
    ///
    /// # Errors
    /// As the server says.
    pub async fn create<C: Kind>(&self, object: &C) -> Result<C> {
        self.0.pass.create(object, self.live_objects::<C>()).await
    }

    /// Makes the status of a child say `status`, in every field that it names, where the child's kind
    /// expects its maker to. What it says already is not sent.
    ///
    /// # Errors
    /// As the server says, or somebody else controls the child.
    pub async fn apply_child_status<C: Kind>(&self, key: &ObjectKey, status: impl Serialize) -> Result<()> {
        let known = self.live_objects::<C>();
        self.0.pass.apply_child_status::<C>(key, status, known).await
    }

    /// Sets and removes labels and annotations of an object that is not a child of this one, whoever
    /// owns them: only the values that `change` names, by a merge patch. The cache of the view shows
    /// it at once.
    ///
    /// # Errors
    /// As the server says; a conflict if the object was replaced by another of its name.
    pub async fn patch_metadata<V: View + Serialize>(
        &self,
        key: &ObjectKey,
        change: &MetadataPatch,
    ) -> Result<()> {
        let known = self.0.caches.get::<V>();
        let known = known.map(|cache| -> &dyn LiveObjects { cache });
        self.0.pass.patch_metadata::<V::Kind>(key, change, known).await
    }

    /// Sets labels and annotations of this object itself; a conflict if another writer was first
    /// since it was read.
    ///
    /// # Errors
    /// As the server says.
    pub async fn mark(&self, metadata: ObjectMeta) -> Result<()> {
        self.0.pass.mark(&metadata).await
    }

    /// Deletes a child, or this object itself, if it is there and as it was read. An object of that name
    /// that this controller has not written and that does not name this object among its owners is not a
    /// child, and is left.
    ///
    /// # Errors
    /// As the server says, or another object controls it.
    pub async fn delete<C: Kind>(&self, key: &ObjectKey) -> Result<()> {
        self.0.pass.delete::<C>(key, self.live_objects::<C>()).await
    }

    /// Deletes an object that need not be a child of this one, such as a claim, whoever made it, if it is
    /// there and as it was read. Look at it first.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub async fn delete_unowned<C: Kind>(&self, key: &ObjectKey) -> Result<()> {
        self.0.pass.delete_unowned::<C>(key, self.live_objects::<C>()).await
    }

    /// Deletes the children of kind `C` that this controller has written and this pass has not applied,
    /// and says how many.
    ///
    /// # Errors
    /// As the server says, or the controller does not own the kind.
    pub async fn prune<C: Kind>(&self) -> Result<usize> {
        self.0.pass.prune::<C>(self.cache::<C>()?).await
    }

    /// Keeps this object from being deleted before [`Self::release`] of the same name. The pass goes
    /// on: nothing has to be run again for it.
    ///
    /// # Errors
    /// As the server says.
    pub async fn add_finalizer(&self, name: &str) -> Result<()> {
        self.0.pass.add_finalizer(name).await
    }

    /// Lets this object be deleted, as far as `name` is concerned.
    ///
    /// # Errors
    /// As the server says.
    pub async fn remove_finalizer(&self, name: &str) -> Result<()> {
        self.0.pass.remove_finalizer(name).await
    }

    /// What the status shall say, conditions apart. Written once, when the pass ends.
    pub fn status(&self, status: impl Serialize) {
        self.0.pass.status(status);
    }

    /// Asserts a condition of this object, written when the pass ends.
    pub fn condition(&self, condition: Condition) {
        self.0.pass.condition(condition);
    }

    /// Takes a condition of this object away when the pass ends.
    pub fn remove_condition(&self, condition: &str) {
        self.0.pass.remove_condition(condition);
    }

    /// This object was deleted, as the server says and its watch does not yet: nothing of it is written when
    /// the pass ends.
    pub fn object_deleted(&self) {
        self.0.pass.mark_owner_deleted();
    }

    /// Tells people something about this object, in the background and within a budget.
    pub fn publish_event(&self, note: EventNote) {
        self.0.recorder.publish(&*self.0.object, note);
    }

    /// A client held to the deadline of this run and to the budget of the API server, for what the
    /// writer and the caches do not do.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.0.client.clone()
    }

    /// The right to act, for effects on other systems.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.0.fence
    }

    /// Which leader this is, counted over all replicas; 0 without leader election. To be left beside
    /// effects on other systems, so that a later leader can tell its own from an earlier one's.
    #[must_use]
    pub fn leader_term(&self) -> u64 {
        self.0.term
    }

    /// Why this pass is run.
    #[must_use]
    pub fn reasons(&self) -> &[RunReason] {
        &self.0.reasons
    }

    /// When this pass must be over.
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

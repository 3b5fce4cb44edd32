//! The only way to write: skips writes that change nothing, and records those that are sent.
//!
//! All writes use one field manager per controller, so that conflicts are rare and our own
//! changes can be distinguished from others. Objects in a cache are not read again,
//! nothing is sent without the lease, and nothing is retried.

mod apply;
mod metadata;
mod noop;
mod pass;
mod send;
mod status;
#[cfg(test)]
mod tests;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use kube::Resource;
use kube::core::{ApiResource, DynamicObject, Request};
use serde::Serialize;
use serde_json::Value;

pub use self::apply::{ApplyEffect, ApplyResult};
pub use self::metadata::MetadataPatch;
pub use self::pass::{Pass, PassOwner};
use crate::cache::{Cache, PendingWrite, WriteReceipt};
use crate::clock::Clock;
use crate::journal::Journal;
use crate::key::{ObjectKey, ObjectRef};
use crate::leadership::fence::Fence;
use crate::telemetry::Telemetry;
use crate::view::View;

/// The verbs of writes in metrics and the journal.
pub(crate) const VERBS: [&str; 7] = ["apply", "create", "delete", "finalizer", "relabel", "report", "status"];

/// Writes on behalf of one controller. Clones share their records.
#[derive(Clone)]
pub struct Writer(Arc<Inner>);

struct Inner {
    client: kube::Client,
    manager: Arc<str>,
    fence: Fence,
    telemetry: Telemetry,
    clock: Clock,
    memory: noop::AppliedMemo,
    children: metadata::KnownChildren,
}

impl Writer {
    /// A writer with the field manager `manager` that acts only while `fence` is open.
    #[must_use]
    pub fn new(client: kube::Client, manager: &str, fence: Fence, telemetry: Telemetry, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            client,
            manager: manager.into(),
            fence,
            telemetry,
            clock,
            memory: noop::AppliedMemo::default(),
            children: metadata::KnownChildren::default(),
        }))
    }

    /// The field manager.
    #[must_use]
    pub fn manager(&self) -> &str {
        &self.0.manager
    }

    /// Begins one pass over `owner`; writes are recorded in `journal`.
    #[must_use]
    pub fn pass(&self, owner: PassOwner, journal: Journal) -> Pass {
        Pass::new(self.clone(), owner, journal)
    }

    /// Drops the records of a deleted object.
    pub fn on_deleted(&self, object: &ObjectRef) {
        self.0.memory.remove(object);
    }

    /// Drops the records of the children of a deleted owner.
    pub(crate) fn on_owner_deleted(&self, owner: &ObjectKey) {
        self.0.children.remove(owner);
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("manager", &self.0.manager)
            .finish_non_exhaustive()
    }
}

/// A kind with its API path.
#[derive(Clone, Debug)]
pub(crate) struct ErasedKind {
    resource: ApiResource,
    name: Arc<str>,
    cluster: bool,
}

impl ErasedKind {
    /// The kind of `K`.
    pub(crate) fn for_resource<K>() -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let resource = ApiResource::erase::<K>(&());
        Self {
            name: Arc::from(resource.kind.as_str()),
            resource,
            cluster: TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>(),
        }
    }

    /// Its name, such as `ConfigMap`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Group and version.
    pub(crate) fn api_version(&self) -> &str {
        &self.resource.api_version
    }

    /// Whether its objects have no namespace.
    pub(crate) fn is_cluster_scoped(&self) -> bool {
        self.cluster
    }

    /// An object of this kind.
    pub(crate) fn object_ref(&self, key: ObjectKey) -> ObjectRef {
        ObjectRef {
            kind: self.name.clone(),
            key,
        }
    }

    /// Requests for objects of this kind in `namespace`.
    pub(crate) fn request(&self, namespace: Option<&str>) -> Request {
        Request::new(DynamicObject::url_path(&self.resource, namespace))
    }
}

/// A view of the objects of one kind that includes our own writes.
///
/// The writer compares with it before it writes and passes every response to it, so that the next read
/// sees the write although the watch has not shown it yet.
pub trait LiveObjects: Send + Sync {
    /// The last known object, own writes included. `None`: it does not exist. An object that is only partly
    /// known is returned without its `managedFields`, and is read from the server if needed.
    fn live(&self, key: &ObjectKey) -> Option<Value>;

    /// The objects that have `uid` as an owner.
    fn owned_by(&self, uid: &str) -> Vec<Value>;

    /// Announces a write, because its event may come before its response. Dropping it means failure.
    fn begin_write(&self, key: &ObjectKey) -> Box<dyn InFlightWrite>;

    /// Applies the response to a read, if the view keeps such states.
    fn record_read(&self, _live: &Value) {}
}

/// A write that has been announced.
pub trait InFlightWrite: Send {
    /// It was answered with this object.
    fn record_write(self: Box<Self>, response: &Value, made: WriteReceipt);

    /// It was a deletion, and the object with this UID was deleted.
    fn record_delete(self: Box<Self>, uid: &str);
}

impl<T: View + Serialize> LiveObjects for Cache<T> {
    fn live(&self, key: &ObjectKey) -> Option<Value> {
        match self.get(key) {
            Some(object) => to_value(&object),
            None => self.unreadable(key).map(|_| Value::Null),
        }
    }

    fn owned_by(&self, uid: &str) -> Vec<Value> {
        let owned = Self::owned_by(self, uid);
        owned.iter().filter_map(to_value).collect()
    }

    fn begin_write(&self, key: &ObjectKey) -> Box<dyn InFlightWrite> {
        Box::new(Self::begin_write(self, key))
    }

    fn record_read(&self, live: &Value) {
        Self::record_read(self, live);
    }
}

impl<T: View> InFlightWrite for PendingWrite<T> {
    fn record_write(self: Box<Self>, response: &Value, made: WriteReceipt) {
        Self::record_write(*self, response, made);
    }

    fn record_delete(self: Box<Self>, uid: &str) {
        Self::record_delete(*self, uid);
    }
}

/// A value decoded from JSON can be encoded again.
fn to_value<T: Serialize>(object: &Arc<T>) -> Option<Value> {
    serde_json::to_value(&**object).ok()
}

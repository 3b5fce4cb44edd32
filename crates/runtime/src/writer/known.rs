//! The interface between the writer and a cache.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::cache::{Cache, PendingWrite, WriteReceipt};
use crate::key::ObjectKey;
use crate::view::View;

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

//! What the writer asks of a cache, and what it tells it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::cache::{Cache, PendingWrite, WriteReceipt};
use crate::key::ObjectKey;
use crate::view::View;

/// A view of the objects of one kind that includes our own writes.
///
/// The writer compares with it before it writes and tells it every answer, so that the next read
/// sees the write although the watch has not shown it yet.
pub trait LiveObjects: Send + Sync {
    /// The object as last known, own writes included. `None`: there is none. One of which not all is
    /// known is given without its `managedFields`, and is read from the server where it matters.
    fn live(&self, key: &ObjectKey) -> Option<Value>;

    /// The objects that name `uid` among their owners.
    fn owned_by(&self, uid: &str) -> Vec<Value>;

    /// Announces a write, because its event may come before its answer. Dropped, it has failed.
    fn begin_write(&self, key: &ObjectKey) -> Box<dyn InFlightWrite>;

    /// Takes over what the server showed in answer to a read, if the view keeps such things.
    fn record_read(&self, _live: &Value) {}
}

/// A write that has been announced.
pub trait InFlightWrite: Send {
    /// It was answered with this object.
    fn record_write(self: Box<Self>, response: &Value, made: WriteReceipt);

    /// It was a deletion, and the object with this UID is gone.
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

/// What was decoded from JSON can be JSON again.
fn to_value<T: Serialize>(object: &Arc<T>) -> Option<Value> {
    serde_json::to_value(&**object).ok()
}

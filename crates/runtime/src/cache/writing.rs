//! A pending write: the changes of its object wait until it is known whether they are its own.

use std::sync::Arc;

use serde_json::Value;

use super::Cache;
use crate::key::ObjectKey;
use crate::version::ResourceVersion;
use crate::view::View;

/// The conditions of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteReceipt {
    /// The version that was read before; `None` if there was none.
    pub base: Option<ResourceVersion>,
    /// Whether no foreign change can lie between that version and the response.
    pub locked: bool,
    /// The field manager.
    pub manager: Arc<str>,
}

/// A write that was announced and not answered yet. If it is dropped, it counts as failed, and changes
/// of the object in the meantime count as foreign.
#[derive(Debug)]
pub struct PendingWrite<T: View> {
    cache: Cache<T>,
    key: ObjectKey,
}

impl<T: View> PendingWrite<T> {
    pub(super) fn begin(cache: &Cache<T>, key: &ObjectKey) -> Self {
        cache.write().begin_write(key);
        Self {
            cache: cache.clone(),
            key: key.clone(),
        }
    }

    /// The write was answered with the object: see [`Cache::wrote`].
    pub fn record_write(self, response: &Value, made: WriteReceipt) {
        self.cache.record_write(response, made);
    }

    /// The object was deleted: see [`Cache::deleted`].
    pub fn record_delete(self, uid: &str) {
        self.cache.record_delete(&self.key, uid);
    }
}

impl<T: View> Drop for PendingWrite<T> {
    fn drop(&mut self) {
        if self.cache.write().end_write(&self.key) {
            self.cache.0.write_answered.notify_one();
        }
    }
}

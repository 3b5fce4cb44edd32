//! The caches of one controller, by type and by the kinds it writes.
//!
//! A conflict names a kind and a key, not a type, so caches of written kinds are also found by name.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;

use crate::cache::Cache;
use crate::controller::Kind;
use crate::controller::handlers::kind_name;
use crate::error::Result;
use crate::key::{ObjectKey, ObjectRef};
use crate::view::View;

/// A cache of a written kind, with its type erased.
trait WrittenCache: Send + Sync {
    /// The newest known state of the object.
    fn newest(&self, key: &ObjectKey) -> Option<Value>;
    /// Reads the object from the server.
    fn refresh(&self, client: kube::Client, key: ObjectKey) -> BoxFuture<'static, Result<()>>;
}

/// The caches of one controller.
#[derive(Clone, Default)]
pub(crate) struct ControllerCaches {
    by_type: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
    written: BTreeMap<&'static str, Arc<dyn WrittenCache>>,
}

impl ControllerCaches {
    /// Adds an input. If the same kind is also written, that cache is kept.
    pub(crate) fn insert<T: View>(&mut self, cache: Cache<T>) {
        let entry = self.by_type.entry(TypeId::of::<T>());
        entry.or_insert_with(|| Arc::new(cache));
    }

    /// Adds a kind that is written, on which conflicts may occur.
    pub(crate) fn insert_written<C: Kind>(&mut self, cache: Cache<C>) {
        let cache = Arc::new(cache);
        self.written.insert(kind_name::<C>(), cache.clone());
        self.by_type.insert(TypeId::of::<C>(), cache);
    }

    pub(crate) fn get<T: View>(&self) -> Option<&Cache<T>> {
        self.by_type.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The newest known state of an object of a written kind.
    pub(crate) fn newest(&self, object: &ObjectRef) -> Option<Value> {
        self.written.get(&*object.kind)?.newest(&object.key)
    }

    /// Reads an object of a written kind from the server into its cache.
    pub(crate) async fn refresh(&self, client: &kube::Client, object: &ObjectRef) -> Result<()> {
        match self.written.get(&*object.kind) {
            Some(cache) => cache.refresh(client.clone(), object.key.clone()).await,
            None => Ok(()),
        }
    }
}

impl<C: Kind> WrittenCache for Cache<C> {
    fn newest(&self, key: &ObjectKey) -> Option<Value> {
        serde_json::to_value(&*self.get(key)?).ok()
    }

    fn refresh(&self, client: kube::Client, key: ObjectKey) -> BoxFuture<'static, Result<()>> {
        Box::pin(refresh_from_server(self.clone(), client, key))
    }
}

async fn refresh_from_server<C: Kind>(cache: Cache<C>, client: kube::Client, key: ObjectKey) -> Result<()> {
    let resource = ApiResource::erase::<C>(&());
    let api: Api<DynamicObject> = match &key.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    match api.get(&key.name).await {
        Ok(object) => cache.record_read(&serde_json::to_value(object)?),
        Err(kube::Error::Api(status)) if is_about_object(&status, &key) => {
            if let Some(known) = cache.get(&key) {
                cache.record_delete(&key, View::meta(&*known).uid);
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Whether a 404 is about the object. Otherwise no server serves its kind at the moment, and the object
/// may still exist.
fn is_about_object(status: &kube::core::Status, key: &ObjectKey) -> bool {
    let named = status.details.as_ref().map(|details| &*details.name);
    status.code == 404 && named == Some(&*key.name)
}

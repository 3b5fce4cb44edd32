//! The namespace lifecycle: empties a namespace that is being deleted, says what is left in its
//! conditions, and lets it go when nothing is.
//!
//! Order, conditions and wording are those of Kubernetes' namespace controller. A namespace is
//! looked at again whenever something in it goes, so finalizers of others are waited for.

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::call::Verb;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Delay;
use super::queue::Queue;
use super::system_client::{SystemClient, is_of};
use conditions::Remains;

/// The finalizer in `spec.finalizers` that is this controller's to remove.
const FINALIZER: &str = "kubernetes";

pub(super) struct NamespaceLifecycle {
    door: SystemClient,
    changes: UnboundedReceiver<Change>,
    queue: Queue<String>,
    delay: Delay,
}

impl NamespaceLifecycle {
    pub(super) fn new(server: &ApiServer, delay: Delay) -> Self {
        let door = SystemClient::controller(server, "namespace-controller");
        let changes = door.follow(|change| change.new.is_none() || is_of(change, "", "namespaces"));
        let mut queue = Queue::new();
        for namespace in server.list("", "namespaces") {
            queue.add(object::name(&namespace).to_owned(), Duration::ZERO);
        }
        Self {
            door,
            changes,
            queue,
            delay,
        }
    }

    /// Follows the server until dropped.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                change = self.changes.recv() => match change {
                    Some(change) => self.note(&change),
                    None => return,
                },
                namespace = self.queue.next() => self.attempt(namespace).await,
            }
        }
    }

    fn note(&mut self, change: &Change) {
        let namespace = match &change.new {
            Some(new) if change.key.resource == namespaces() && object::is_terminating(new) => &change.key.name,
            None => &change.key.namespace,
            Some(_) => return,
        };
        if self.terminating(namespace).is_some() {
            let delay = self.delay.draw();
            self.queue.add(namespace.clone(), delay);
        }
    }

    fn terminating(&self, name: &str) -> Option<Value> {
        let namespace = self.door.server.get("", "namespaces", "", name)?;
        object::is_terminating(&namespace).then(|| (*namespace).clone())
    }

    async fn attempt(&mut self, name: String) {
        let result = match self.terminating(&name) {
            Some(namespace) => self.sync(&namespace).await,
            None => Ok(()),
        };
        match result {
            Ok(()) => self.queue.forget(&name),
            Err(error) if error.code == 404 => self.queue.forget(&name),
            Err(error) => {
                tracing::debug!(namespace = name, %error, "Namespace deletion failed, will retry");
                self.queue.retry(name);
            }
        }
    }

    async fn sync(&self, namespace: &Value) -> Result<(), ApiError> {
        let name = object::name(namespace);
        if namespace.pointer("/status/phase") != Some(&json!("Terminating")) {
            return self.set_status(namespace, &json!({ "phase": "Terminating" })).await;
        }
        if has_finalizer(namespace) {
            let (emptied, remains, failures) = self.empty(name).await;
            self.report(namespace, &remains, &failures).await?;
            if !emptied {
                return failures.into_iter().next().map_or(Ok(()), Err);
            }
        }
        self.finalize(name);
        Ok(())
    }

    /// Deletes everything in a namespace: pods first, the rest once they are gone. Says whether
    /// all is gone, and what is to be reported; that pods remain is not, as in the original.
    async fn empty(&self, namespace: &str) -> (bool, Remains, Vec<ApiError>) {
        let resources = self.door.stored_resources();
        let content = resources.into_iter().filter(|resource| resource.namespaced);
        let (pods, others): (Vec<_>, Vec<_>) =
            content.partition(|resource| resource.plural == "pods" && resource.group.is_empty());
        let (remains, failures) = self.delete_all(namespace, &pods).await;
        if !remains.resources.is_empty() {
            return (false, Remains::default(), failures);
        }
        let (remains, more) = self.delete_all(namespace, &others).await;
        let failures: Vec<ApiError> = failures.into_iter().chain(more).collect();
        (failures.is_empty() && remains.resources.is_empty(), remains, failures)
    }

    async fn delete_all(&self, namespace: &str, resources: &[Arc<Resource>]) -> (Remains, Vec<ApiError>) {
        let (mut remains, mut failures) = (Remains::default(), Vec::new());
        for resource in resources {
            if self.left(resource, namespace).is_empty() {
                continue;
            }
            let storage = resource.storage.clone();
            let key = Key {
                resource: storage,
                namespace: namespace.into(),
                name: String::new(),
            };
            let mut call = self.door.call(Verb::DeleteCollection, resource, &key);
            call.options.delete.propagation_policy = Some("Background".to_owned());
            failures.extend(self.door.send(call).await.err());
            remains.count(resource, &self.left(resource, namespace));
        }
        (remains, failures)
    }

    fn left(&self, resource: &Resource, namespace: &str) -> Vec<Arc<Value>> {
        let mut objects = self.door.objects(resource);
        objects.retain(|object| object::namespace(object) == namespace);
        objects
    }

    async fn report(&self, namespace: &Value, remains: &Remains, failures: &[ApiError]) -> Result<(), ApiError> {
        let now = self.door.server.clock().now_seconds();
        let old = namespace.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = old.cloned().unwrap_or_default();
        if !conditions::update(&mut conditions, remains, failures, &now) {
            return Ok(());
        }
        self.set_status(namespace, &json!({ "conditions": conditions })).await
    }

    async fn set_status(&self, namespace: &Value, status: &Value) -> Result<(), ApiError> {
        let resource = self.door.server.any_version("", "namespaces");
        let resource = resource.ok_or_else(|| ApiError::not_found(&namespaces(), ""))?;
        let version = object::resource_version(namespace);
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        self.door
            .merge_status(&resource, &key(object::name(namespace)), &patch)
            .await
    }

    /// Removes this controller's finalizer; a namespace without any is gone in the same moment.
    fn finalize(&self, name: &str) {
        let store = self.door.server.store();
        let Some(current) = store.get(&key(name)) else {
            return;
        };
        let mut finalized = (*current).clone();
        if let Some(finalizers) = finalized.pointer_mut("/spec/finalizers") {
            let others = finalizers.as_array().into_iter().flatten();
            *finalizers = others.filter(|finalizer| **finalizer != FINALIZER).cloned().collect();
        }
        let free = !has_any_finalizer(&finalized) && object::finalizers(&finalized).is_empty();
        // Nothing runs between the read above and this write, so it cannot have moved.
        drop(store.commit(&key(name), Some(&current), (!free).then_some(finalized)));
    }
}

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn key(name: &str) -> Key {
    Key {
        resource: namespaces(),
        namespace: String::new(),
        name: name.to_owned(),
    }
}

fn spec_finalizers(namespace: &Value) -> impl Iterator<Item = &Value> {
    namespace
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn has_finalizer(namespace: &Value) -> bool {
    spec_finalizers(namespace).any(|finalizer| *finalizer == FINALIZER)
}

fn has_any_finalizer(namespace: &Value) -> bool {
    spec_finalizers(namespace).next().is_some()
}

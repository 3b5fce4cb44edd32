//! The garbage collector: deletes what no owner holds any more, waits and orphans as asked.
//!
//! It follows every write that may matter, keeps the graph, and acts on an object after a seeded delay, since the
//! real one may lag by any time. It must not look at anything but owner references and finalizers.

mod graph;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::call::DeleteOptions;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Delay;
use super::queue::Queue;
use super::system_client::SystemClient;
use graph::{Decision, FOREGROUND, Graph, ORPHAN, Place, Uid};

/// Resources the real collector does not look at.
const IGNORED: &str = "events";
const DEFINITIONS: &str = "customresourcedefinitions";

pub(super) struct GarbageCollector {
    door: SystemClient,
    changes: UnboundedReceiver<Change>,
    graph: Graph,
    queue: Queue<Uid>,
    puzzled: BTreeSet<Uid>,
    delay: Delay,
}

fn follows(change: &Change) -> bool {
    match change.key.resource.resource.as_str() {
        IGNORED => false,
        DEFINITIONS => true,
        _ => graph::matters(change),
    }
}

impl GarbageCollector {
    pub(super) fn new(server: &ApiServer, delay: Delay) -> Self {
        let door = SystemClient::controller(server, "generic-garbage-collector");
        let changes = door.follow(follows);
        let mut collector = Self {
            door,
            changes,
            graph: Graph::default(),
            queue: Queue::new(),
            puzzled: BTreeSet::new(),
            delay,
        };
        collector.take_stock();
        collector
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
                uid = self.queue.next() => self.attempt(uid).await,
            }
        }
    }

    fn take_stock(&mut self) {
        for resource in self.door.stored_resources() {
            for object in self.door.objects(&resource) {
                let key = Key {
                    resource: resource.storage.clone(),
                    namespace: object::namespace(&object).to_owned(),
                    name: object::name(&object).to_owned(),
                };
                let concerned = self.graph.add(&key, &object);
                self.enqueue(concerned);
            }
        }
    }

    fn note(&mut self, change: &Change) {
        let concerned = self.graph.apply(change);
        self.enqueue(concerned);
        if change.key.resource.resource == DEFINITIONS {
            // A kind that an owner reference names may be served now.
            let puzzled = std::mem::take(&mut self.puzzled);
            self.enqueue(puzzled);
        }
    }

    fn enqueue(&mut self, concerned: BTreeSet<Uid>) {
        for uid in concerned {
            let delay = self.delay.draw();
            self.queue.add(uid, delay);
        }
    }

    async fn attempt(&mut self, uid: Uid) {
        while let Ok(change) = self.changes.try_recv() {
            self.note(&change);
        }
        let server = &self.door.server;
        let places = |api_version: &str, kind: &str| {
            let resource = server.resource_of_kind(api_version, kind)?;
            Some(Place {
                resource: resource.storage.clone(),
                namespaced: resource.namespaced,
            })
        };
        let decision = self.graph.decide(&uid, &places);
        match self.carry_out(&uid, decision).await {
            Ok(()) => self.queue.forget(&uid),
            Err(error) if error.code == 404 => self.queue.forget(&uid),
            Err(error) => {
                tracing::debug!(%uid, %error, "Garbage collection failed, will retry");
                self.queue.retry(uid);
            }
        }
    }

    async fn carry_out(&mut self, uid: &str, decision: Decision) -> Result<(), ApiError> {
        match decision {
            Decision::Nothing => Ok(()),
            Decision::Puzzled => {
                self.puzzled.insert(uid.to_owned());
                Ok(())
            }
            Decision::Delete { policy, unblock } => {
                if unblock {
                    self.edit_owners(uid, unblocked).await?;
                }
                self.delete(uid, policy).await
            }
            Decision::Forget { owners } => self.edit_owners(uid, |references| without(references, &owners)).await,
            Decision::Orphan { dependents } => {
                let owner = BTreeSet::from([uid.to_owned()]);
                for dependent in &dependents {
                    self.edit_owners(dependent, |references| without(references, &owner))
                        .await?;
                }
                self.remove_finalizer(uid, ORPHAN).await
            }
            Decision::Release => self.remove_finalizer(uid, FOREGROUND).await,
        }
    }

    /// The object of a UID as it is now, and where it is served.
    fn find(&self, uid: &str) -> Option<(Arc<Resource>, Key, Arc<Value>)> {
        let key = self.graph.key(uid)?.clone();
        let resource = self.door.resource_at(&key.resource)?;
        let object = self.door.server.store().get(&key)?;
        (object::uid(&object) == uid).then_some((resource, key, object))
    }

    async fn delete(&self, uid: &str, policy: &str) -> Result<(), ApiError> {
        let Some((resource, key, object)) = self.find(uid) else {
            return Ok(());
        };
        let options = DeleteOptions {
            uid: Some(uid.to_owned()),
            resource_version: Some(object::resource_version(&object).to_owned()),
            propagation_policy: Some(policy.to_owned()),
            ..DeleteOptions::default()
        };
        self.door.delete(&resource, &key, options).await
    }

    async fn edit_owners(&self, uid: &str, edit: impl Fn(Vec<Value>) -> Vec<Value>) -> Result<(), ApiError> {
        let Some((resource, key, object)) = self.find(uid) else {
            return Ok(());
        };
        let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let references = edit(references.cloned().unwrap_or_default());
        self.patch(&resource, &key, &object, "ownerReferences", references.into())
            .await
    }

    async fn remove_finalizer(&self, uid: &str, finalizer: &str) -> Result<(), ApiError> {
        let Some((resource, key, object)) = self.find(uid) else {
            return Ok(());
        };
        let kept = object::finalizers(&object)
            .into_iter()
            .filter(|name| *name != finalizer);
        let kept: Vec<Value> = kept.map(Value::from).collect();
        self.patch(&resource, &key, &object, "finalizers", kept.into()).await
    }

    async fn patch(
        &self,
        resource: &Arc<Resource>,
        key: &Key,
        object: &Value,
        member: &str,
        value: Value,
    ) -> Result<(), ApiError> {
        let version = object::resource_version(object);
        let patch = json!({ "metadata": { "resourceVersion": version, member: value } });
        self.door.merge(resource, key, &patch).await
    }
}

fn without(references: Vec<Value>, owners: &BTreeSet<Uid>) -> Vec<Value> {
    let kept = |reference: &Value| !owners.contains(object::text(reference, "uid"));
    references.into_iter().filter(kept).collect()
}

fn unblocked(mut references: Vec<Value>) -> Vec<Value> {
    for reference in &mut references {
        reference["blockOwnerDeletion"] = false.into();
    }
    references
}

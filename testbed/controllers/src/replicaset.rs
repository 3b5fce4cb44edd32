//! Replica sets: as many pods as asked for, made from the template, the least missed deleted first.
//!
//! There is no kubelet behind it: a pod is an object that stays pending until somebody writes its
//! status. Reads look at the store, so nothing has to be expected before it is seen.

mod choice;
mod status;

use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apimachinery::validation;
use aplomb_apiserver::call::DeleteOptions;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};
use serde_json::{Map, Value, json};

use super::controller::{Controller, NAMESPACE_TERMINATING};
use super::events::{Recorder, Severity};
use super::system_client::{SystemClient, is_of};
use super::{owners, pods};
use status::Observation;

const KIND: &str = "ReplicaSet";
/// Pods created or deleted in one go.
const BURST: usize = 500;

pub(super) struct ReplicaSets {
    door: SystemClient,
    events: Recorder,
}

impl ReplicaSets {
    /// The replica sets a pod belongs to, or may come to belong to.
    fn of_pod(&self, pod: &Value, orphan_too: bool) -> Vec<Key> {
        let namespace = object::namespace(pod);
        match owners::controller_of(pod) {
            Some(owner) if object::text(owner, "kind") == KIND => {
                vec![key(namespace, object::text(owner, "name"))]
            }
            Some(_) => Vec::new(),
            None if !orphan_too || object::is_terminating(pod) => Vec::new(),
            None => {
                let sets = self.door.server.list("apps", "replicasets").into_iter();
                let theirs = sets.filter(|set| {
                    object::namespace(set) == namespace && owners::selector(set).is_some_and(|it| it.matches(pod))
                });
                theirs.map(|set| key(namespace, object::name(&set))).collect()
            }
        }
    }

    fn pods_in(&self, namespace: &str) -> Vec<Arc<Value>> {
        let mut pods = self.door.server.list("", "pods");
        pods.retain(|pod| object::namespace(pod) == namespace);
        pods
    }

    /// Brings the number of pods closer to what is asked for.
    async fn manage(&mut self, set: &Value, active: &[Arc<Value>]) -> Result<(), ApiError> {
        let wanted = set.pointer("/spec/replicas").and_then(Value::as_u64);
        let wanted = wanted.and_then(|it| usize::try_from(it).ok()).unwrap_or(1);
        if active.len() < wanted {
            let count = (wanted - active.len()).min(BURST);
            self.create_pods(set, count).await?;
        } else if active.len() > wanted {
            let related = self.related(set);
            let count = (active.len() - wanted).min(BURST);
            let now = self.door.server.clock().now();
            for pod in choice::to_delete(active.to_vec(), &related, count, now) {
                self.delete_pod(set, &pod).await?;
            }
        }
        Ok(())
    }

    /// Makes pods: one, then twice as many each time, so that what is refused is refused only a few
    /// times. What was begun together is also ended.
    async fn create_pods(&mut self, set: &Value, count: usize) -> Result<(), ApiError> {
        let (mut left, mut batch) = (count, 1);
        while left > 0 {
            batch = batch.min(left);
            let mut refused = Ok(());
            for _ in 0..batch {
                refused = refused.and(self.create_pod(set).await);
            }
            refused?;
            left -= batch;
            batch *= 2;
        }
        Ok(())
    }

    /// The pods of every replica set with the same controller.
    fn related(&self, set: &Value) -> Vec<Arc<Value>> {
        let Some(owner) = owners::controller_of(set) else {
            return Vec::new();
        };
        let sets = self.door.server.list("apps", "replicasets");
        let siblings = sets
            .iter()
            .filter(|other| owners::controller_of(other).is_some_and(|it| it["uid"] == owner["uid"]));
        let selectors: Vec<_> = siblings.filter_map(|it| owners::selector(it)).collect();
        let mut pods = self.pods_in(object::namespace(set));
        pods.retain(|pod| selectors.iter().any(|it| it.matches(pod)));
        pods
    }

    async fn create_pod(&mut self, set: &Value) -> Result<(), ApiError> {
        let place = pod_place(object::namespace(set), "");
        match self.door.create(&place, &from_template(set)).await {
            Ok(pod) => {
                let message = format!("Created pod: {}", object::name(&pod));
                self.say(set, Severity::Normal, "SuccessfulCreate", &message).await;
                Ok(())
            }
            Err(error) => {
                if !error.has_cause(NAMESPACE_TERMINATING) {
                    let message = format!("Error creating: {}", error.message);
                    self.say(set, Severity::Warning, "FailedCreate", &message).await;
                }
                Err(error)
            }
        }
    }

    async fn delete_pod(&mut self, set: &Value, pod: &Value) -> Result<(), ApiError> {
        let name = object::name(pod);
        let place = pod_place(object::namespace(pod), name);
        let pods = pods_resource(&self.door)?;
        let gone = self.door.delete(&pods, &place, DeleteOptions::default()).await;
        match gone {
            Ok(()) => {
                let message = format!("Deleted pod: {name}");
                self.say(set, Severity::Normal, "SuccessfulDelete", &message).await;
                Ok(())
            }
            Err(error) if error.code == 404 => Ok(()),
            Err(error) => {
                let message = format!("Error deleting: {}", error.message);
                self.say(set, Severity::Warning, "FailedDelete", &message).await;
                Err(error)
            }
        }
    }

    async fn say(&mut self, set: &Value, severity: Severity, reason: &str, message: &str) {
        self.events.record(set, severity, reason, message).await;
    }

    /// Writes what is seen; says when to look again because pods grow older.
    async fn report(&self, place: &Key, set: &Value, seen: &Observation<'_>) -> Result<Option<Duration>, ApiError> {
        if let Some(status) = status::of(set, seen) {
            let mut reported = set.clone();
            reported["status"] = status;
            self.door.update_status(place, &reported).await?;
        }
        let seconds = set.pointer("/spec/minReadySeconds").and_then(Value::as_i64);
        let seconds = seconds.unwrap_or(0);
        let waits = seen.active.iter();
        let waits = waits.filter_map(|pod| pods::available_in(pod, seconds, seen.now));
        Ok(waits.filter(|wait| !wait.is_zero()).min())
    }
}

impl Controller for ReplicaSets {
    type Item = Key;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::controller(server, "replicaset-controller");
        let events = Recorder::new(&door, "replicaset-controller");
        Self { door, events }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, "apps", "replicasets") || is_of(change, "", "pods")
    }

    fn stock(&self) -> Vec<Key> {
        let sets = self.door.server.list("apps", "replicasets");
        let keys = sets.iter().map(|set| key(object::namespace(set), object::name(set)));
        keys.collect()
    }

    fn concerned(&self, change: &Change) -> Vec<Key> {
        if change.key.resource == sets() {
            return vec![change.key.clone()];
        }
        let mut keys = Vec::new();
        if let Some(old) = &change.old {
            keys.extend(self.of_pod(old, false));
        }
        if let Some(new) = &change.new {
            keys.extend(self.of_pod(new, true));
        }
        keys.dedup();
        keys
    }

    async fn sync(&mut self, place: &Key) -> Result<Option<Duration>, ApiError> {
        let Some(set) = self.door.server.store().get(place) else {
            return Ok(None);
        };
        let Some(selector) = owners::selector(&set) else {
            return Ok(None);
        };
        let candidates = self
            .pods_in(&place.namespace)
            .into_iter()
            .filter(|pod| owners::controller_of(pod).is_none() || owners::is_controlled_by(pod, &set));
        let (active, others): (Vec<_>, Vec<_>) = candidates.partition(|pod| pods::is_active(pod));
        let leaving = others
            .iter()
            .filter(|pod| pods::is_leaving(pod) && owners::is_controlled_by(pod, &set) && selector.matches(pod));
        let resource = pods_resource(&self.door)?;
        let active = owners::claimed(&self.door, &set, &selector, &resource, active).await?;
        let managed = if object::is_terminating(&set) {
            Ok(())
        } else {
            self.manage(&set, &active).await
        };
        let managed = managed.or_else(ignore_terminating);
        let seen = Observation {
            active: &active,
            leaving: leaving.count(),
            failure: managed.as_ref().err().map(|error| error.message.as_str()),
            now: self.door.server.clock().now(),
        };
        let again = self.report(place, &set, &seen).await?;
        managed.map(|()| again)
    }
}

fn ignore_terminating(error: ApiError) -> Result<(), ApiError> {
    if error.has_cause(NAMESPACE_TERMINATING) {
        Ok(())
    } else {
        Err(error)
    }
}

/// A pod as the template of its controller says.
fn from_template(set: &Value) -> Value {
    let template = set.pointer("/spec/template").unwrap_or(&Value::Null);
    let mut metadata = Map::new();
    for member in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{member}")) {
            metadata.insert(member.into(), value.clone());
        }
    }
    // A prefix that gives invalid names is used as it is, without the dash that would be nicer.
    let name = object::name(set);
    let dashed = format!("{name}-");
    let prefix = if validation::metadata::dns_subdomain(&dashed, true).is_empty() {
        dashed
    } else {
        name.to_owned()
    };
    metadata.insert("generateName".into(), prefix.into());
    metadata.insert("ownerReferences".into(), json!([owners::controller_reference(set)]));
    json!({ "metadata": metadata, "spec": template.get("spec") })
}

fn sets() -> GroupResource {
    GroupResource::new("apps", "replicasets")
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        resource: sets(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn pod_place(namespace: &str, name: &str) -> Key {
    Key {
        resource: GroupResource::new("", "pods"),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn pods_resource(door: &SystemClient) -> Result<Arc<Resource>, ApiError> {
    let pods = GroupResource::new("", "pods");
    let resource = door.resource_at(&pods);
    resource.ok_or_else(|| ApiError::not_found(&pods, ""))
}

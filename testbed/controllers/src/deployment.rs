//! Deployments: one replica set for each template, grown and shrunk from one to the next.
//!
//! What to do is decided as Kubernetes' deployment controller decides it, step by step, each step
//! a write; the numbers and words are in `size`, `revision` and `status`, which are pure. A step
//! that finds its deployment changed fails and is tried again with what is there then.

mod act;
mod revision;
mod size;
mod status;

use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};
use serde_json::{Value, json};

use super::controller::Controller;
use super::events::{Recorder, Severity};
use super::system_client::{SystemClient, is_of};
use super::{owners, pods};
use size::Bounds;

const KIND: &str = "Deployment";

pub(super) struct Deployments {
    door: SystemClient,
    events: Recorder,
}

/// A deployment in the middle of being looked at. Its version stays the one that was read, so that
/// a later write of it fails when it was written meanwhile.
struct Rollout {
    place: Key,
    deployment: Value,
    /// All its replica sets, the oldest first.
    sets: Vec<Value>,
}

impl Rollout {
    /// The replica set of the present template.
    fn new_set(&self) -> Option<&Value> {
        let template = &self.deployment["spec"]["template"];
        self.sets.iter().find(|set| act::is_of_template(set, template))
    }

    /// All replica sets but the one of the present template.
    fn old_sets(&self) -> Vec<Value> {
        let new = self.new_set().map(|set| object::uid(set).to_owned());
        let old = self.sets.iter();
        let old = old.filter(|set| new.as_deref() != Some(object::uid(set)));
        old.cloned().collect()
    }

    /// Takes over a replica set as it is now.
    fn update(&mut self, set: Value) {
        let same = |it: &&mut Value| object::uid(it) == object::uid(&set);
        match self.sets.iter_mut().find(same) {
            Some(old) => *old = set,
            None => self.sets.push(set),
        }
    }

    fn is_paused(&self) -> bool {
        self.deployment["spec"]["paused"] == true
    }

    fn bounds(&self) -> Bounds {
        Bounds::of(&self.deployment)
    }
}

impl Deployments {
    /// The deployments a replica set belongs to, or may come to belong to.
    fn of_set(&self, set: &Value, orphan_too: bool) -> Vec<Key> {
        let namespace = object::namespace(set);
        match owners::controller_of(set) {
            Some(owner) if object::text(owner, "kind") == KIND => {
                vec![key(namespace, object::text(owner, "name"))]
            }
            Some(_) => Vec::new(),
            None if !orphan_too => Vec::new(),
            None => {
                let all = self.door.server.list("apps", "deployments").into_iter();
                let theirs = all.filter(|deployment| {
                    object::namespace(deployment) == namespace
                        && owners::selector(deployment).is_some_and(|it| !it.is_empty() && it.matches(set))
                });
                theirs.map(|it| key(namespace, object::name(&it))).collect()
            }
        }
    }

    /// A pod that goes may be what the next replica set has been waiting for.
    fn of_pod(&self, pod: &Value) -> Vec<Key> {
        let owner = owners::controller_of(pod);
        let name = owner.filter(|it| object::text(it, "kind") == "ReplicaSet");
        let set = name.and_then(|owner| {
            let name = object::text(owner, "name");
            let server = &self.door.server;
            server.get("apps", "replicasets", object::namespace(pod), name)
        });
        set.map(|set| self.of_set(&set, false)).unwrap_or_default()
    }

    async fn begin(&self, place: &Key, deployment: Value) -> Result<Option<Rollout>, ApiError> {
        let Some(selector) = owners::selector(&deployment) else {
            return Ok(None);
        };
        let mut all = self.door.server.list("apps", "replicasets");
        all.retain(|set| object::namespace(set) == place.namespace);
        let resource = self.door.resource_at(&sets());
        let resource = resource.ok_or_else(|| ApiError::not_found(&sets(), ""))?;
        let mine = owners::claimed(&self.door, &deployment, &selector, &resource, all).await?;
        let mut sets: Vec<Value> = mine.iter().map(|set| (**set).clone()).collect();
        sets.sort_by(size::by_age);
        Ok(Some(Rollout {
            place: place.clone(),
            deployment,
            sets,
        }))
    }

    /// Says that a selector of everything selects nothing here.
    async fn refuse(&mut self, place: &Key, mut deployment: Value) -> Result<(), ApiError> {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.events
            .record(&deployment, Severity::Warning, "SelectingAll", message)
            .await;
        let generation = object::generation(&deployment);
        if size::counted(&deployment, "observedGeneration") < generation {
            deployment["status"]["observedGeneration"] = generation.into();
            self.door.update_status(place, &deployment).await?;
        }
        Ok(())
    }

    /// Whether the size that was asked for changed since replica sets were given theirs.
    fn was_scaled(rollout: &Rollout) -> bool {
        let desired = rollout.bounds().desired;
        let mut active = rollout.sets.iter().filter(|set| size::replicas(set) > 0);
        active.any(|set| revision::count(set, revision::DESIRED).is_some_and(|it| it != desired))
    }

    async fn roll(&mut self, rollout: &mut Rollout) -> Result<Option<Duration>, ApiError> {
        self.new_set(rollout, true).await?;
        if self.resize_new(rollout).await? || self.shrink_old(rollout).await? {
            return self.report_rollout(rollout).await;
        }
        self.clean_up_when_done(rollout).await?;
        self.report_rollout(rollout).await
    }

    async fn recreate(&mut self, rollout: &mut Rollout) -> Result<Option<Duration>, ApiError> {
        self.new_set(rollout, false).await?;
        let mut scaled = false;
        for set in rollout.old_sets() {
            scaled |= self.resize(rollout, &set, 0, false).await?;
        }
        if scaled || self.old_pods_run(rollout) {
            return self.report_rollout(rollout).await;
        }
        self.new_set(rollout, true).await?;
        if let Some(new) = rollout.new_set().cloned() {
            let desired = rollout.bounds().desired;
            self.resize(rollout, &new, desired, false).await?;
        }
        self.clean_up_when_done(rollout).await?;
        self.report_rollout(rollout).await
    }

    fn old_pods_run(&self, rollout: &Rollout) -> bool {
        let old = rollout.old_sets();
        if old.iter().any(|set| size::counted(set, "replicas") > 0) {
            return true;
        }
        let pods: Vec<Arc<Value>> = self.door.server.list("", "pods");
        let runs = |pod: &Value| !matches!(pods::phase(pod), "Failed" | "Succeeded");
        pods.iter()
            .any(|pod| runs(pod) && old.iter().any(|set| owners::is_controlled_by(pod, set)))
    }
}

impl Controller for Deployments {
    type Item = Key;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::controller(server, "deployment-controller");
        let events = Recorder::new(&door, "deployment-controller");
        Self { door, events }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, "apps", "deployments")
            || is_of(change, "apps", "replicasets")
            || (is_of(change, "", "pods") && change.new.is_none())
    }

    fn stock(&self) -> Vec<Key> {
        let all = self.door.server.list("apps", "deployments");
        let keys = all.iter().map(|it| key(object::namespace(it), object::name(it)));
        keys.collect()
    }

    fn concerned(&self, change: &Change) -> Vec<Key> {
        if change.key.resource == deployments() {
            return vec![change.key.clone()];
        }
        let mut keys = Vec::new();
        if change.key.resource == sets() {
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            keys.extend(old.into_iter().flat_map(|set| self.of_set(set, false)));
            keys.extend(new.into_iter().flat_map(|set| self.of_set(set, true)));
            keys.dedup();
        } else if let Some(pod) = &change.old {
            keys.extend(self.of_pod(pod));
        }
        keys
    }

    async fn sync(&mut self, place: &Key) -> Result<Option<Duration>, ApiError> {
        let Some(stored) = self.door.server.store().get(place) else {
            return Ok(None);
        };
        let deployment = (*stored).clone();
        if deployment.pointer("/spec/selector") == Some(&json!({})) {
            return self.refuse(place, deployment).await.map(|()| None);
        }
        let Some(mut rollout) = self.begin(place, deployment).await? else {
            return Ok(None);
        };
        if object::is_terminating(&rollout.deployment) {
            self.new_set(&mut rollout, false).await?;
            return self.report(&rollout).await.map(|()| None);
        }
        self.note_pause(&mut rollout).await?;
        if rollout.is_paused() {
            return self.rescale(&mut rollout).await.map(|()| None);
        }
        self.new_set(&mut rollout, false).await?;
        if Self::was_scaled(&rollout) {
            return self.rescale(&mut rollout).await.map(|()| None);
        }
        if rollout.bounds().rolling {
            self.roll(&mut rollout).await
        } else {
            self.recreate(&mut rollout).await
        }
    }
}

fn deployments() -> GroupResource {
    GroupResource::new("apps", "deployments")
}

fn sets() -> GroupResource {
    GroupResource::new("apps", "replicasets")
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        resource: deployments(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

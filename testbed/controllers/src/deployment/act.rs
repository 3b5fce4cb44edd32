//! The steps of a rollout that write: the new replica set, sizes, history and status.

use std::time::Duration;

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::call::DeleteOptions;
use aplomb_apiserver::storage::Key;
use aplomb_builtin_kinds::hash;
use serde_json::{Value, json};

use super::super::events::Severity;
use super::super::owners;
use super::{Deployments, Rollout, revision, sets, size, status};

const HASH: &str = "pod-template-hash";
const MAX_NAME: usize = 253;
/// What a history limit is set to when there is to be none.
const ALL: i64 = i32::MAX as i64;

/// Whether a replica set is of this template, but for the hash that only it carries.
pub(super) fn is_of_template(set: &Value, template: &Value) -> bool {
    let theirs = set.pointer("/spec/template").map(without_hash);
    theirs.is_some_and(|theirs| theirs == without_hash(template))
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) else {
        return template;
    };
    metadata.retain(|_, value| !value.is_null());
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.remove(HASH);
        if labels.is_empty() {
            metadata.remove("labels");
        }
    }
    if metadata.is_empty()
        && let Some(template) = template.as_object_mut()
    {
        template.remove("metadata");
    }
    template
}

impl Deployments {
    /// Brings the replica set of the present template up to date, and the deployment's revision;
    /// creates it when it is wanted and missing.
    pub(super) async fn new_set(&mut self, rollout: &mut Rollout, create: bool) -> Result<(), ApiError> {
        let next = revision::highest(&rollout.old_sets()) + 1;
        let Some(new) = rollout.new_set() else {
            return if create {
                self.create_set(rollout, next).await
            } else {
                Ok(())
            };
        };
        let mut new = new.clone();
        let stamped = revision::stamp(&rollout.deployment, &mut new, next);
        let ready = rollout.deployment.pointer("/spec/minReadySeconds");
        let ready = ready.and_then(Value::as_i64).unwrap_or(0);
        let had = new.pointer("/spec/minReadySeconds").and_then(Value::as_i64);
        if stamped || had.unwrap_or(0) != ready {
            new["spec"]["minReadySeconds"] = ready.into();
            let place = set_place(&new);
            rollout.update(self.door.update(&place, &new).await?);
            return Ok(());
        }
        let revision = revision::annotation(&new, revision::REVISION).unwrap_or_default();
        let mut noted = revision::note(&mut rollout.deployment, revision);
        if status::deadline(&rollout.deployment).is_some() && status::progress(&rollout.deployment).is_none() {
            let message = format!("Found new replica set {}", go_quote(object::name(&new)));
            self.note_progress(rollout, "FoundNewReplicaSet", &message);
            noted = true;
        }
        if noted {
            self.write_status(rollout).await?;
        }
        Ok(())
    }

    fn note_progress(&self, rollout: &mut Rollout, reason: &str, message: &str) {
        let now = self.door.server.clock().now();
        let condition = status::progressing("True", reason, message, now);
        status::set(&mut rollout.deployment["status"], condition);
    }

    async fn write_status(&self, rollout: &Rollout) -> Result<(), ApiError> {
        let written = self.door.update_status(&rollout.place, &rollout.deployment).await;
        written.map(drop)
    }

    async fn create_set(&mut self, rollout: &mut Rollout, next: i64) -> Result<(), ApiError> {
        let set = new_replica_set(rollout, next);
        let place = set_place(&set);
        match self.door.create(&place, &set).await {
            Ok(created) => {
                let size = size::replicas(&created);
                let name = object::name(&created).to_owned();
                rollout.update(created);
                if size > 0 {
                    let message = format!("Scaled up replica set {name} from 0 to {size}");
                    self.say(rollout, Severity::Normal, "ScalingReplicaSet", &message).await;
                }
                let mut noted = revision::note(&mut rollout.deployment, &next.to_string());
                if status::deadline(&rollout.deployment).is_some() {
                    let message = format!("Created new replica set {}", go_quote(&name));
                    self.note_progress(rollout, "NewReplicaSetCreated", &message);
                    noted = true;
                }
                if noted {
                    self.write_status(rollout).await?;
                }
                Ok(())
            }
            Err(error) if error.reason == "AlreadyExists" => {
                self.count_collision(rollout).await?;
                Err(error)
            }
            Err(error) => {
                self.note_failure(rollout, object::name(&set), &error).await;
                Err(error)
            }
        }
    }

    /// Another template has this hash: the next one is taken with one more collision in it.
    async fn count_collision(&self, rollout: &mut Rollout) -> Result<(), ApiError> {
        let collisions = size::counted(&rollout.deployment, "collisionCount") + 1;
        rollout.deployment["status"]["collisionCount"] = collisions.into();
        self.write_status(rollout).await
    }

    async fn note_failure(&mut self, rollout: &mut Rollout, name: &str, error: &ApiError) {
        if error.has_cause(super::super::controller::NAMESPACE_TERMINATING) {
            return;
        }
        let reason = "ReplicaSetCreateError";
        let why = &error.message;
        let message = format!("Failed to create new replica set {}: {why}", go_quote(name));
        if status::deadline(&rollout.deployment).is_some() {
            let now = self.door.server.clock().now();
            let condition = status::progressing("False", reason, &message, now);
            status::set(&mut rollout.deployment["status"], condition);
            // The creation that failed is tried again in any case, and with it this.
            drop(self.write_status(rollout).await);
        }
        self.say(rollout, Severity::Warning, reason, &message).await;
    }

    async fn say(&mut self, about: &Rollout, severity: Severity, reason: &str, message: &str) {
        self.events.record(&about.deployment, severity, reason, message).await;
    }

    /// Gives a replica set its size, and with `anyway` the sizes shares are computed from too.
    pub(super) async fn resize(
        &mut self,
        rollout: &mut Rollout,
        set: &Value,
        to: i64,
        anyway: bool,
    ) -> Result<bool, ApiError> {
        let from = size::replicas(set);
        if from == to && !anyway {
            return Ok(false);
        }
        let bounds = rollout.bounds();
        let mut wanted = set.clone();
        wanted["spec"]["replicas"] = to.into();
        let noted = revision::note_sizes(&mut wanted, bounds.desired, bounds.surge);
        if from == to && !noted {
            return Ok(false);
        }
        let name = object::name(set).to_owned();
        let place = set_place(set);
        rollout.update(self.door.update(&place, &wanted).await?);
        if from == to {
            return Ok(false);
        }
        let way = if from < to { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {name} from {from} to {to}");
        self.say(rollout, Severity::Normal, "ScalingReplicaSet", &message).await;
        Ok(true)
    }

    /// Grows the new replica set as far as there is room, or shrinks it to what is asked for.
    pub(super) async fn resize_new(&mut self, rollout: &mut Rollout) -> Result<bool, ApiError> {
        let Some(new) = rollout.new_set().cloned() else {
            return Ok(false);
        };
        let (bounds, current) = (rollout.bounds(), size::replicas(&new));
        let to = if current >= bounds.desired {
            bounds.desired
        } else {
            bounds.new_set(size::total(rollout.sets.iter()), current)
        };
        self.resize(rollout, &new, to, false).await
    }

    /// Shrinks old replica sets as far as enough stays available.
    pub(super) async fn shrink_old(&mut self, rollout: &mut Rollout) -> Result<bool, ApiError> {
        let Some(new) = rollout.new_set().cloned() else {
            return Ok(false);
        };
        let active = |rollout: &Rollout| {
            let mut old = rollout.old_sets();
            old.retain(|set| size::replicas(set) > 0);
            old
        };
        let bounds = rollout.bounds();
        let old = active(rollout);
        let most = size::may_shrink(&bounds, &old, &new);
        if old.is_empty() || most <= 0 {
            return Ok(false);
        }
        let mut scaled = false;
        for (index, to) in size::without_unhealthy(&old, most) {
            scaled |= self.resize(rollout, &old[index], to, false).await?;
        }
        let old = active(rollout);
        for (index, to) in size::without_surplus(&bounds, &old, &new) {
            scaled |= self.resize(rollout, &old[index], to, false).await?;
        }
        Ok(scaled)
    }

    /// Gives every replica set its share after the deployment was scaled or while it is paused.
    pub(super) async fn rescale(&mut self, rollout: &mut Rollout) -> Result<(), ApiError> {
        self.new_set(rollout, false).await?;
        self.share(rollout).await?;
        if rollout.is_paused() {
            self.clean_up(rollout).await?;
        }
        self.report(rollout).await
    }

    async fn share(&mut self, rollout: &mut Rollout) -> Result<(), ApiError> {
        let bounds = rollout.bounds();
        let active = rollout.sets.iter().filter(|set| size::replicas(set) > 0);
        let active: Vec<Value> = active.cloned().collect();
        let only = match active.as_slice() {
            [] => rollout.new_set().or(rollout.sets.last()).cloned(),
            [only] => Some(only.clone()),
            _ => None,
        };
        if let Some(only) = only {
            return self.resize(rollout, &only, bounds.desired, false).await.map(drop);
        }
        if rollout.new_set().is_some_and(|set| is_saturated(set, bounds.desired)) {
            for old in rollout.old_sets() {
                self.resize(rollout, &old, 0, false).await?;
            }
        } else if bounds.rolling {
            for (set, to) in size::proportional(&bounds, &rollout.deployment, active) {
                self.resize(rollout, &set, to, true).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn note_pause(&self, rollout: &mut Rollout) -> Result<(), ApiError> {
        let now = self.door.server.clock().now();
        let Some(condition) = status::pause(&rollout.deployment, now) else {
            return Ok(());
        };
        status::set(&mut rollout.deployment["status"], condition);
        self.write_status(rollout).await
    }

    pub(super) async fn clean_up_when_done(&self, rollout: &Rollout) -> Result<(), ApiError> {
        let now = &rollout.deployment["status"];
        if status::is_complete(&rollout.deployment, now) {
            self.clean_up(rollout).await?;
        }
        Ok(())
    }

    /// Deletes old replica sets beyond the history that is to be kept, if they are empty.
    async fn clean_up(&self, rollout: &Rollout) -> Result<(), ApiError> {
        let limit = rollout.deployment.pointer("/spec/revisionHistoryLimit");
        let Some(limit) = limit.and_then(Value::as_i64).filter(|it| *it != ALL) else {
            return Ok(());
        };
        let mut old = rollout.old_sets();
        old.retain(|set| !object::is_terminating(set));
        old.sort_by_key(|set| revision::of(set).unwrap_or(0));
        let kept = usize::try_from(limit).unwrap_or(0);
        let surplus = old.len().saturating_sub(kept);
        for set in &old[..surplus] {
            let unseen = object::generation(set) > size::counted(set, "observedGeneration");
            if unseen || size::replicas(set) != 0 || size::counted(set, "replicas") != 0 {
                continue;
            }
            self.delete(set).await?;
        }
        Ok(())
    }

    async fn delete(&self, set: &Value) -> Result<(), ApiError> {
        let place = set_place(set);
        let Some(resource) = self.door.resource_at(&place.resource) else {
            return Ok(());
        };
        let gone = self.door.delete(&resource, &place, DeleteOptions::default()).await;
        gone.or_else(|error| if error.code == 404 { Ok(()) } else { Err(error) })
    }

    /// Writes the counts.
    pub(super) async fn report(&self, rollout: &Rollout) -> Result<(), ApiError> {
        let now = self.door.server.clock().now();
        let counts = status::counts(&rollout.deployment, &rollout.sets, rollout.new_set(), now);
        self.write_if_new(rollout, counts).await.map(drop)
    }

    /// Writes the counts and how the rollout gets on; says when to look again.
    pub(super) async fn report_rollout(&self, rollout: &Rollout) -> Result<Option<Duration>, ApiError> {
        let now = self.door.server.clock().now();
        let new = rollout.new_set();
        let seen = status::of_rollout(&rollout.deployment, &rollout.sets, new, now);
        let again = status::check_in(&rollout.deployment, &seen, now);
        let written = self.write_if_new(rollout, seen).await?;
        Ok(again.filter(|_| !written))
    }

    async fn write_if_new(&self, rollout: &Rollout, status: Value) -> Result<bool, ApiError> {
        if rollout.deployment.get("status") == Some(&status) {
            return Ok(false);
        }
        let mut reported = rollout.deployment.clone();
        reported["status"] = status;
        self.door.update_status(&rollout.place, &reported).await?;
        Ok(true)
    }
}

fn is_saturated(set: &Value, desired: i64) -> bool {
    size::replicas(set) == desired
        && revision::count(set, revision::DESIRED) == Some(desired)
        && size::counted(set, "availableReplicas") == desired
}

fn set_place(set: &Value) -> Key {
    Key {
        resource: sets(),
        namespace: object::namespace(set).to_owned(),
        name: object::name(set).to_owned(),
    }
}

/// The replica set of the present template, named after the hash of it.
fn new_replica_set(rollout: &Rollout, next: i64) -> Value {
    let deployment = &rollout.deployment;
    let mut template = deployment["spec"]["template"].clone();
    let collisions = deployment.pointer("/status/collisionCount");
    let collisions = collisions.and_then(Value::as_u64);
    let hash = hash::pod_template(&template, collisions.and_then(|it| u32::try_from(it).ok()));
    template["metadata"]["labels"][HASH] = hash.as_str().into();
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH] = hash.as_str().into();
    let prefix: String = object::name(deployment)
        .chars()
        .take(MAX_NAME - 1 - hash.len())
        .collect();
    let bounds = rollout.bounds();
    let size = bounds.new_set(size::total(rollout.sets.iter()), 0);
    let mut set = json!({
        "metadata": {
            "name": format!("{prefix}-{hash}"),
            "namespace": object::namespace(deployment),
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owners::controller_reference(deployment)],
        },
        "spec": { "replicas": size, "selector": selector, "template": template },
    });
    if let Some(ready) = deployment.pointer("/spec/minReadySeconds") {
        set["spec"]["minReadySeconds"] = ready.clone();
    }
    revision::stamp(deployment, &mut set, next);
    revision::note_sizes(&mut set, bounds.desired, bounds.surge);
    set
}

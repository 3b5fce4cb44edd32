//! Deployment readiness: reports each change of a deployment as rolled out after a while.
//!
//! Only the status is written, as the deployment controller would have left it; no replica sets
//! and no pods appear.

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Delay;
use super::queue::Queue;
use super::system_client::{SystemClient, is_of};

pub(super) struct DeploymentReadiness {
    door: SystemClient,
    changes: UnboundedReceiver<Change>,
    queue: Queue<Key>,
    delay: Delay,
}

impl DeploymentReadiness {
    pub(super) fn new(server: &ApiServer, delay: Delay) -> Self {
        let door = SystemClient::controller(server, "deployment-controller");
        let changes = door.follow(|change| is_of(change, "apps", "deployments"));
        let mut actor = Self {
            door,
            changes,
            queue: Queue::new(),
            delay,
        };
        for deployment in server.list("apps", "deployments") {
            actor.look_at(&deployment);
        }
        actor
    }

    /// Follows the server until dropped.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                change = self.changes.recv() => match change {
                    Some(Change { new: Some(new), .. }) => self.look_at(&new),
                    Some(_) => {}
                    None => return,
                },
                key = self.queue.next() => self.attempt(key).await,
            }
        }
    }

    fn look_at(&mut self, deployment: &Value) {
        if is_behind(deployment) {
            let delay = self.delay.draw();
            let namespace = object::namespace(deployment).to_owned();
            let name = object::name(deployment).to_owned();
            self.queue.add(
                Key {
                    resource: deployments(),
                    namespace,
                    name,
                },
                delay,
            );
        }
    }

    async fn attempt(&mut self, key: Key) {
        match self.roll_out(&key).await {
            Ok(()) => self.queue.forget(&key),
            Err(error) if error.code == 404 => self.queue.forget(&key),
            Err(_) => self.queue.retry(key),
        }
    }

    async fn roll_out(&self, key: &Key) -> Result<(), ApiError> {
        let server = &self.door.server;
        let Some(deployment) = server.store().get(key).filter(|it| is_behind(it)) else {
            return Ok(());
        };
        let resource = server.any_version("apps", "deployments");
        let resource = resource.ok_or_else(|| ApiError::not_found(&deployments(), &key.name))?;
        let version = object::resource_version(&deployment);
        let status = rolled_out(&deployment, &server.clock().now_seconds());
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        self.door.merge_status(&resource, key, &patch).await
    }
}

fn deployments() -> GroupResource {
    GroupResource::new("apps", "deployments")
}

/// Whether the status does not speak of the present generation.
fn is_behind(deployment: &Value) -> bool {
    let observed = deployment.pointer("/status/observedGeneration").and_then(Value::as_i64);
    !object::is_terminating(deployment) && observed != Some(object::generation(deployment))
}

/// The status of a deployment all of whose replicas are up to date and available.
fn rolled_out(deployment: &Value, now: &str) -> Value {
    let replicas = deployment
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1);
    // A count of zero is left out on the wire; null removes it from what was there.
    let count = if replicas == 0 { Value::Null } else { replicas.into() };
    let progress = format!(
        "Deployment \"{}\" has successfully progressed.",
        object::name(deployment)
    );
    let conditions = [
        (
            "Available",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        ),
        ("Progressing", "NewReplicaSetAvailable", progress.as_str()),
    ];
    let conditions: Vec<Value> = conditions
        .into_iter()
        .map(|(kind, reason, message)| {
            json!({
                "type": kind,
                "status": "True",
                "lastUpdateTime": now,
                "lastTransitionTime": since(deployment, kind).unwrap_or(now),
                "reason": reason,
                "message": message,
            })
        })
        .collect();
    json!({
        "observedGeneration": object::generation(deployment),
        "replicas": count,
        "updatedReplicas": count,
        "readyReplicas": count,
        "availableReplicas": count,
        "conditions": conditions,
    })
}

/// Since when a condition has been true, if it is.
fn since<'a>(deployment: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = deployment.pointer("/status/conditions")?.as_array()?;
    let condition = conditions
        .iter()
        .find(|it| it["type"] == kind && it["status"] == "True")?;
    condition["lastTransitionTime"].as_str()
}

//! Quotas: says in the status of each what may be used and what is, counted anew when that may have
//! become another amount, or less. What becomes more is charged by the API server, before it is there.

use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};
use aplomb_builtin_kinds::usage::{self, QuotaSurroundings};
use serde_json::Value;

use super::controller::Controller;
use super::system_client::{SystemClient, is_of};

const QUOTAS: &str = "resourcequotas";
/// Nothing tells that a pod's time to go is over, or that a charged write was refused after all.
const RESYNC: Duration = Duration::from_mins(5);
/// What can use less after a change.
const SHRINKING: [&str; 3] = ["persistentvolumeclaims", "pods", "services"];

pub(super) struct ResourceQuotas {
    door: SystemClient,
}

impl ResourceQuotas {
    fn with_peers<T>(&self, namespace: &str, look: impl FnOnce(&QuotaSurroundings<'_>) -> T) -> T {
        let server = &self.door.server;
        let peers = |group: &str, plural: &str| {
            let resource = GroupResource::new(group, plural);
            server.store().within(&resource, namespace)
        };
        look(&QuotaSurroundings {
            peers: &peers,
            now: server.clock().now(),
        })
    }

    /// A quota with the status it should have, unless it has it.
    fn observed(&self, place: &Key) -> Option<Value> {
        let mut resources = self.door.stored_resources();
        resources.retain(|resource| resource.namespaced);
        let resources: Vec<GroupResource> = resources.iter().map(|it| it.group_resource()).collect();
        // What is charged is stored, and the other way round, while nobody charges.
        let _still = self.door.server.charging();
        let mut quota = Value::clone(&*self.door.server.store().get(place)?);
        let status = self.with_peers(&place.namespace, |around| usage::status(&quota, &resources, around))?;
        quota["status"] = status;
        Some(quota)
    }

    fn in_namespace(&self, namespace: &str) -> Vec<Arc<Value>> {
        self.door.server.store().within(&quotas(), namespace)
    }
}

impl Controller for ResourceQuotas {
    type Item = Key;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::controller(server, "resourcequota-controller");
        Self { door }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        let shrinks = SHRINKING.iter().any(|plural| is_of(change, "", plural));
        let less = change.old.is_some() && !change.key.namespace.is_empty() && (change.new.is_none() || shrinks);
        less || is_of(change, "", QUOTAS)
    }

    fn stock(&self) -> Vec<Key> {
        let quotas = self.door.server.list("", QUOTAS);
        quotas.iter().map(|quota| key(quota)).collect()
    }

    fn concerned(&self, change: &Change) -> Vec<Key> {
        let mut concerned = Vec::new();
        if let Some(quota) = change.new.as_ref().filter(|_| is_of(change, "", QUOTAS)) {
            let old = change.old.as_ref();
            if old.is_none_or(|old| usage::hard_changes(old, quota)) {
                concerned.push(key(quota));
            }
        }
        let Some(old) = &change.old else {
            return concerned;
        };
        let mut quotas = self.in_namespace(&change.key.namespace);
        if !quotas.is_empty() {
            self.with_peers(&change.key.namespace, |around| {
                let (resource, new) = (&change.key.resource, change.new.as_deref());
                quotas.retain(|quota| usage::frees(resource, old, new, quota, around));
            });
        }
        concerned.extend(quotas.iter().map(|quota| key(quota)));
        concerned
    }

    async fn sync(&mut self, place: &Key) -> Result<Option<Duration>, ApiError> {
        if let Some(quota) = self.observed(place) {
            self.door.update_status(place, &quota).await?;
        }
        let there = self.door.server.store().get(place).is_some();
        Ok(there.then_some(RESYNC))
    }
}

fn quotas() -> GroupResource {
    GroupResource::new("", QUOTAS)
}

fn key(quota: &Value) -> Key {
    Key {
        resource: quotas(),
        namespace: object::namespace(quota).to_owned(),
        name: object::name(quota).to_owned(),
    }
}

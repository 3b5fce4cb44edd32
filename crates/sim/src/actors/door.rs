//! The API server as a component of the control plane uses it: in process, as a system user.
//!
//! Reads may look at the store, as a controller looks at its cache; every write is a call.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::call::{Call, DeleteOptions, Outcome, PatchType, User, Verb};
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::status::{ApiError, GroupResource};
use crate::store::{Change, Key};

/// What every controller of the control plane calls itself.
const USER_AGENT: &str = "kube-controller-manager";

/// A way into the server for one component.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) server: ApiServer,
    user: User,
    user_agent: &'static str,
}

impl Door {
    /// For a controller that runs in the controller manager.
    pub(super) fn controller(server: &ApiServer, name: &str) -> Self {
        let user = User {
            name: format!("system:serviceaccount:kube-system:{name}"),
            uid: String::new(),
            groups: vec!["system:serviceaccounts".into(), "system:masters".into()],
        };
        Self {
            server: server.clone(),
            user,
            user_agent: USER_AGENT,
        }
    }

    /// For the kubelet of a node.
    pub(super) fn kubelet(server: &ApiServer, node: &str) -> Self {
        let user = User {
            name: format!("system:node:{node}"),
            uid: String::new(),
            groups: vec!["system:nodes".into(), "system:masters".into()],
        };
        Self {
            server: server.clone(),
            user,
            user_agent: "kubelet",
        }
    }

    /// Every write from now on, in order.
    pub(super) fn follow(&self) -> UnboundedReceiver<Change> {
        let (sender, receiver) = unbounded_channel();
        // A closed channel means the actor has stopped; its hook then has nobody to tell.
        self.server
            .on_commit(Arc::new(move |change| drop(sender.send(change.clone()))));
        receiver
    }

    /// One served version of each stored resource.
    pub(super) fn stored_resources(&self) -> Vec<Arc<Resource>> {
        let mut seen: Vec<GroupResource> = Vec::new();
        let mut resources = self.server.resources();
        resources.retain(|resource| {
            let new = !seen.contains(&resource.storage);
            seen.push(resource.storage.clone());
            new
        });
        resources
    }

    /// Everything stored of a resource.
    pub(super) fn objects(&self, resource: &Resource) -> Vec<Arc<Value>> {
        self.server
            .store()
            .snapshot(&resource.storage)
            .objects
            .into_values()
            .collect()
    }

    /// The resource whose objects are kept in a place.
    pub(super) fn resource_at(&self, storage: &GroupResource) -> Option<Arc<Resource>> {
        self.server
            .resources()
            .into_iter()
            .find(|resource| resource.storage == *storage)
    }

    pub(super) fn call(&self, verb: Verb, resource: &Arc<Resource>, key: &Key) -> Call {
        let mut call = Call::new(verb, resource.clone());
        call.namespace = Some(key.namespace.clone()).filter(|_| resource.namespaced);
        call.name = Some(key.name.clone()).filter(|name| !name.is_empty());
        call.user = self.user.clone();
        call.user_agent = self.user_agent.to_owned();
        call
    }

    pub(super) async fn send(&self, call: Call) -> Result<(), ApiError> {
        match self.server.call(call).await? {
            Outcome::Object { .. } | Outcome::List { .. } | Outcome::Watch(_) => Ok(()),
        }
    }

    /// Deletes the object if it still is the one of `options.uid`.
    pub(super) async fn delete(
        &self,
        resource: &Arc<Resource>,
        key: &Key,
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        let mut call = self.call(Verb::Delete, resource, key);
        call.options.delete = options;
        self.send(call).await
    }

    /// Merges `patch` into the object.
    pub(super) async fn merge(
        &self,
        resource: &Arc<Resource>,
        key: &Key,
        patch: &Value,
    ) -> Result<(), ApiError> {
        let call = self
            .call(Verb::Patch, resource, key)
            .patch(PatchType::Merge)
            .body(patch);
        self.send(call).await
    }

    /// Merges `patch` into the status of the object.
    pub(super) async fn merge_status(
        &self,
        resource: &Arc<Resource>,
        key: &Key,
        patch: &Value,
    ) -> Result<(), ApiError> {
        let call = self
            .call(Verb::Patch, resource, key)
            .patch(PatchType::Merge);
        self.send(call.status().body(patch)).await
    }
}

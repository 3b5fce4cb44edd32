//! The API server as a component of the control plane uses it: in process, as a system user.
//!
//! Reads may look at the store, as a controller looks at its cache; every write is a call.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use aplomb_apimachinery::resource::{Part, Resource};
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::call::{Call, DeleteOptions, Outcome, PatchType, User, Verb};
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};

/// What every controller of the control plane calls itself.
const USER_AGENT: &str = "kube-controller-manager";

/// Whether a change is of this resource.
pub(super) fn is_of(change: &Change, group: &str, plural: &str) -> bool {
    let resource = &change.key.resource;
    resource.group == group && resource.resource == plural
}

/// A way into the server for one component.
#[derive(Clone, Debug)]
pub(super) struct SystemClient {
    pub(super) server: ApiServer,
    user: User,
    user_agent: &'static str,
}

impl SystemClient {
    /// For a controller that runs in the controller manager.
    pub(super) fn controller(server: &ApiServer, name: &str) -> Self {
        let user = User {
            name: format!("system:serviceaccount:kube-system:{name}"),
            uid: String::new(),
            groups: vec!["system:serviceaccounts".into(), "system:masters".into()],
            ..User::default()
        };
        Self {
            server: server.clone(),
            user,
            user_agent: USER_AGENT,
        }
    }

    /// For a part of the API server itself.
    pub(super) fn apiserver(server: &ApiServer) -> Self {
        let user = User {
            name: "system:apiserver".into(),
            uid: String::new(),
            groups: vec!["system:masters".into()],
            ..User::default()
        };
        Self {
            server: server.clone(),
            user,
            user_agent: "kube-apiserver",
        }
    }

    /// For the kubelet of a node.
    pub(super) fn kubelet(server: &ApiServer, node: &str) -> Self {
        let user = User {
            name: format!("system:node:{node}"),
            uid: String::new(),
            groups: vec!["system:nodes".into(), "system:masters".into()],
            ..User::default()
        };
        Self {
            server: server.clone(),
            user,
            user_agent: "kubelet",
        }
    }

    /// Every write from now on that is `wanted`, in order.
    pub(super) fn follow(&self, wanted: fn(&Change) -> bool) -> UnboundedReceiver<Change> {
        let (sender, receiver) = unbounded_channel();
        self.server.on_commit(Arc::new(move |change| {
            if wanted(change) {
                drop(sender.send(change.clone()));
            }
        }));
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

    /// Creates an object where `place` says, under a generated name if it names none.
    pub(super) async fn create(&self, place: &Key, body: &Value) -> Result<Value, ApiError> {
        let resource = self.served(place)?;
        let mut call = self.call(Verb::Create, &resource, place);
        call.name = None;
        self.write(call, &resource, body).await
    }

    /// Replaces an object.
    pub(super) async fn update(&self, place: &Key, body: &Value) -> Result<Value, ApiError> {
        let resource = self.served(place)?;
        let call = self.call(Verb::Update, &resource, place);
        self.write(call, &resource, body).await
    }

    /// Replaces the status of an object.
    pub(super) async fn update_status(&self, place: &Key, body: &Value) -> Result<Value, ApiError> {
        let resource = self.served(place)?;
        let call = self.call(Verb::Update, &resource, place).status();
        self.write(call, &resource, body).await
    }

    /// Applies fields of an object or of its status as a manager, whoever else has had them.
    pub(super) async fn apply(&self, place: &Key, part: Part, manager: &str, body: &Value) -> Result<Value, ApiError> {
        let resource = self.served(place)?;
        let call = self.call(Verb::Patch, &resource, place);
        let mut call = call.patch(PatchType::Apply);
        call.part = part;
        call.options.field_manager = Some(manager.to_owned());
        call.options.force = Some(true);
        self.write(call, &resource, body).await
    }

    async fn write(&self, call: Call, resource: &Resource, body: &Value) -> Result<Value, ApiError> {
        let mut body = body.clone();
        body["apiVersion"] = resource.api_version().into();
        body["kind"] = resource.kind.as_str().into();
        match self.server.call(call.body(&body)).await? {
            Outcome::Object { object, .. } => Ok(Arc::unwrap_or_clone(object)),
            Outcome::List { .. } | Outcome::Watch(_) => Err(ApiError::internal("a write is answered with an object")),
        }
    }

    fn served(&self, place: &Key) -> Result<Arc<Resource>, ApiError> {
        let resource = self.resource_at(&place.resource);
        resource.ok_or_else(|| ApiError::not_found(&place.resource, &place.name))
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
    pub(super) async fn merge(&self, resource: &Arc<Resource>, key: &Key, patch: &Value) -> Result<(), ApiError> {
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
        let call = self.call(Verb::Patch, resource, key).patch(PatchType::Merge);
        self.send(call.status().body(patch)).await
    }
}

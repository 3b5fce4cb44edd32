//! What every namespace is furnished with: the `default` ServiceAccount, and the ConfigMap with the
//! authority that the server's clients trust.
//!
//! Both come back when deleted; the ConfigMap also when edited. They are two controllers, as on the
//! real control plane, so that each can be had alone.

use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::controller::Controller;
use super::system_client::{SystemClient, is_of};

const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the \
     kube-apiserver when using internal endpoints such as the internal service IP or \
     kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.";

/// Keeps the `default` ServiceAccount in every namespace that is not being deleted.
pub(super) struct ServiceAccounts {
    door: SystemClient,
}

impl Controller for ServiceAccounts {
    type Item = String;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::controller(server, "service-account-controller");
        Self { door }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, "", "namespaces") || (is_of(change, "", "serviceaccounts") && change.key.name == ACCOUNT)
    }

    fn stock(&self) -> Vec<String> {
        namespaces(&self.door)
    }

    fn concerned(&self, change: &Change) -> Vec<String> {
        match &change.new {
            Some(_) if is_of(change, "", "namespaces") => vec![change.key.name.clone()],
            None if is_of(change, "", "serviceaccounts") => vec![change.key.namespace.clone()],
            _ => Vec::new(),
        }
    }

    async fn sync(&mut self, namespace: &String) -> Result<Option<Duration>, ApiError> {
        let place = place("serviceaccounts", namespace, ACCOUNT);
        if is_active(&self.door, namespace) && self.door.server.store().get(&place).is_none() {
            let metadata = json!({ "name": ACCOUNT, "namespace": namespace });
            create(&self.door, &place, &json!({ "metadata": metadata })).await?;
        }
        Ok(None)
    }
}

/// Keeps the ConfigMap with the server's authority in every namespace that is not being deleted.
pub(super) struct RootAuthority {
    door: SystemClient,
    authority: Receiver<String>,
}

impl Controller for RootAuthority {
    type Item = String;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::controller(server, "root-ca-cert-publisher");
        let authority = server.authority();
        Self { door, authority }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, "", "namespaces") || (is_of(change, "", "configmaps") && change.key.name == ROOT_CA)
    }

    fn stock(&self) -> Vec<String> {
        namespaces(&self.door)
    }

    fn concerned(&self, change: &Change) -> Vec<String> {
        match &change.new {
            Some(_) if is_of(change, "", "namespaces") => vec![change.key.name.clone()],
            _ if is_of(change, "", "configmaps") => vec![change.key.namespace.clone()],
            _ => Vec::new(),
        }
    }

    async fn sync(&mut self, namespace: &String) -> Result<Option<Duration>, ApiError> {
        let data = json!({ "ca.crt": *self.authority.borrow() });
        let metadata = json!({ "name": ROOT_CA, "annotations": { DESCRIPTION: ROOT_CA_DESCRIPTION } });
        let place = place("configmaps", namespace, ROOT_CA);
        match self.door.server.store().get(&place) {
            None if is_active(&self.door, namespace) => {
                let body = json!({ "metadata": metadata, "data": data });
                create(&self.door, &place, &body).await?;
            }
            Some(there) if !is_as_published(&there, &data) => {
                let mut wanted = (*there).clone();
                wanted["data"] = data;
                let annotations = object::metadata_mut(&mut wanted)
                    .entry("annotations")
                    .or_insert_with(|| json!({}));
                annotations[DESCRIPTION] = ROOT_CA_DESCRIPTION.into();
                self.door.update(&place, &wanted).await?;
            }
            _ => {}
        }
        Ok(None)
    }

    async fn nudged(&mut self) -> Vec<String> {
        match self.authority.changed().await {
            Ok(()) => namespaces(&self.door),
            // The server is gone, and this task about to be.
            Err(_) => std::future::pending().await,
        }
    }
}

fn is_as_published(there: &Value, data: &Value) -> bool {
    let described = there.pointer("/metadata/annotations/kubernetes.io~1description");
    there.get("data") == Some(data) && described.and_then(Value::as_str).is_some_and(|it| !it.is_empty())
}

fn namespaces(door: &SystemClient) -> Vec<String> {
    let namespaces = door.server.list("", "namespaces");
    let names = namespaces.iter().map(|namespace| object::name(namespace));
    names.map(str::to_owned).collect()
}

fn is_active(door: &SystemClient, namespace: &str) -> bool {
    let namespace = door.server.get("", "namespaces", "", namespace);
    namespace.is_some_and(|it| it.pointer("/status/phase") == Some(&json!("Active")))
}

fn place(plural: &str, namespace: &str, name: &str) -> Key {
    Key {
        resource: GroupResource::new("", plural),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// Creates it; somebody else having done so is as good.
async fn create(door: &SystemClient, place: &Key, body: &Value) -> Result<(), ApiError> {
    match door.create(place, body).await {
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

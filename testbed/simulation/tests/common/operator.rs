//! `Site`s of example.com, each served by a ConfigMap that the operator keeps: plain kube-rs with
//! `Controller`, `finalizer` and server-side apply, and nothing that knows of the simulator.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub const FINALIZER: &str = "sites.example.com/release";
const MANAGER: &str = "site-operator";

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus"
)]
pub struct SiteSpec {
    pub host: String,
    pub replicas: i32,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    pub observed_generation: Option<i64>,
    pub host: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("finalizer: {0}")]
    Finalizer(#[from] Box<kube::runtime::finalizer::Error<Error>>),
}

/// What a reconcile needs.
pub struct Operator {
    pub client: Client,
    /// How soon a site is looked at again.
    pub resync: Duration,
}

impl Operator {
    /// A controller of all sites and what they own, and the store it reads from.
    pub fn controller(&self) -> (Controller<Site>, Store<Site>) {
        let sites: Api<Site> = Api::all(self.client.clone());
        let maps: Api<ConfigMap> = Api::all(self.client.clone());
        let controller = Controller::new(sites, watcher::Config::default()).owns(maps, watcher::Config::default());
        let store = controller.store();
        (controller, store)
    }

    /// Runs `controller` until it ends, which it does not.
    pub async fn run(self, controller: Controller<Site>) {
        let error_policy = |_: Arc<Site>, _: &Error, _: Arc<Self>| Action::requeue(Duration::from_secs(5));
        controller
            .run(reconcile, error_policy, Arc::new(self))
            .for_each(|_| async {})
            .await;
    }
}

async fn reconcile(site: Arc<Site>, operator: Arc<Operator>) -> Result<Action, Error> {
    let namespace = site.namespace().unwrap_or_default();
    let sites: Api<Site> = Api::namespaced(operator.client.clone(), &namespace);
    let result = finalizer(&sites, FINALIZER, site, |event| async {
        match event {
            Event::Apply(site) => operator.apply(&namespace, &site).await,
            Event::Cleanup(_) => Ok(Action::await_change()),
        }
    });
    result.await.map_err(|error| Error::from(Box::new(error)))
}

impl Operator {
    async fn apply(&self, namespace: &str, site: &Site) -> Result<Action, Error> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let name = site.name_any();
        let data = json!({ "host": site.spec.host, "replicas": site.spec.replicas.to_string() });
        let child = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, "ownerReferences": [site.controller_owner_ref(&())] },
            "data": data,
        });
        let params = PatchParams::apply(MANAGER).force();
        maps.patch(&name, &params, &Patch::Apply(&child)).await?;
        let sites: Api<Site> = Api::namespaced(self.client.clone(), namespace);
        let mut latest = sites.get(&name).await?;
        let status = SiteStatus {
            observed_generation: site.metadata.generation,
            host: Some(site.spec.host.clone()),
        };
        latest.status = Some(status);
        sites.replace_status(&name, &Default::default(), &latest).await?;
        Ok(Action::requeue(self.resync))
    }
}

//! Registers the group versions that custom resources are served in, as if they were the server's.

use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::call::DeleteOptions;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Change;
use serde_json::{Value, json};

use super::super::controller::Controller;
use super::super::system_client::{SystemClient, is_of};
use super::{REGISTRATION, place};

const GROUP: &str = "apiextensions.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions";
const SERVICES: &str = "apiservices";
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

pub(in super::super) struct Definitions {
    door: SystemClient,
}

impl Definitions {
    fn is_served(&self, group: &str, version: &str) -> bool {
        let definitions = self.door.server.list(GROUP, DEFINITIONS);
        let mut served = definitions.iter().flat_map(|it| versions(it, true));
        served.any(|(other, served)| other == group && served == version)
    }
}

impl Controller for Definitions {
    /// Group and version.
    type Item = (String, String);

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::apiserver(server);
        Self { door }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, GROUP, DEFINITIONS) || is_of(change, REGISTRATION, SERVICES)
    }

    fn stock(&self) -> Vec<Self::Item> {
        let server = &self.door.server;
        let definitions = server.list(GROUP, DEFINITIONS);
        let registered = server.list(REGISTRATION, SERVICES);
        let made = |it: &&Arc<Value>| it["metadata"]["labels"][MANAGED] == "true";
        definitions
            .iter()
            .flat_map(|it| versions(it, true))
            // What is registered for a definition that went while nobody looked has to go too.
            .chain(registered.iter().filter(made).map(registration))
            .collect()
    }

    fn concerned(&self, change: &Change) -> Vec<Self::Item> {
        let both = [&change.old, &change.new];
        let objects = both.into_iter().flatten();
        if is_of(change, GROUP, DEFINITIONS) {
            return objects.flat_map(|it| versions(it, false)).collect();
        }
        objects.filter(|_| change.new.is_none()).map(registration).collect()
    }

    async fn sync(&mut self, item: &Self::Item) -> Result<Option<Duration>, ApiError> {
        let (group, version) = item;
        let name = format!("{version}.{group}");
        let place = place(REGISTRATION, SERVICES, "", &name);
        let there = self.door.server.get(REGISTRATION, SERVICES, "", &name);
        match (self.is_served(group, version), there) {
            (true, None) => {
                let body = json!({
                    "metadata": { "name": name, "labels": { MANAGED: "true" } },
                    "spec": { "group": group, "version": version,
                        "groupPriorityMinimum": 1000, "versionPriority": 100 },
                });
                self.door.create(&place, &body).await?;
            }
            (false, Some(there)) if there["metadata"]["labels"][MANAGED] == "true" => {
                let uid = Some(object::uid(&there).to_owned());
                let options = DeleteOptions {
                    uid,
                    ..DeleteOptions::default()
                };
                let resource = self.door.resource_at(&place.resource);
                if let Some(resource) = resource {
                    self.door.delete(&resource, &place, options).await?;
                }
            }
            _ => {}
        }
        Ok(None)
    }
}

/// The group version an APIService is for.
fn registration(service: &Arc<Value>) -> (String, String) {
    let text = |member| object::text(&service["spec"], member).to_owned();
    (text("group"), text("version"))
}

/// The group versions of a definition.
fn versions(definition: &Value, only_served: bool) -> Vec<(String, String)> {
    let group = object::text(&definition["spec"], "group");
    let versions = definition["spec"]["versions"].as_array();
    versions
        .into_iter()
        .flatten()
        .filter(|version| !only_served || version["served"] == true)
        .map(|version| (group.to_owned(), object::text(version, "name").to_owned()))
        .collect()
}

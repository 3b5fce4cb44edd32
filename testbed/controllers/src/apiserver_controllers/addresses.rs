//! An IPAddress for each address that is given to a Service.
//!
//! The Service allocates; what is kept here only shows it, and never the other way round.

use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::call::DeleteOptions;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Change;
use serde_json::{Value, json};

use super::super::controller::Controller;
use super::super::system_client::{SystemClient, is_of};
use super::place;

const GROUP: &str = "networking.k8s.io";
const ADDRESSES: &str = "ipaddresses";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

pub(in super::super) struct Addresses {
    door: SystemClient,
}

/// An address and the Service it was seen at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Given {
    address: String,
    namespace: String,
    name: String,
}

impl Controller for Addresses {
    type Item = Given;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::apiserver(server);
        Self { door }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, "", "services")
    }

    fn stock(&self) -> Vec<Given> {
        let server = &self.door.server;
        let (services, known) = (server.list("", "services"), server.list(GROUP, ADDRESSES));
        // What is kept of a Service that went while nobody looked has to go too.
        let kept = known.iter().filter_map(|address| kept(address));
        services.iter().flat_map(|service| given(service)).chain(kept).collect()
    }

    fn concerned(&self, change: &Change) -> Vec<Given> {
        let of = |object: &Option<_>| object.as_deref().map_or_else(Vec::new, given);
        let (old, new) = (of(&change.old), of(&change.new));
        if old == new {
            return Vec::new();
        }
        old.into_iter().chain(new).collect()
    }

    async fn sync(&mut self, item: &Given) -> Result<Option<Duration>, ApiError> {
        let server = &self.door.server;
        let service = server.get("", "services", &item.namespace, &item.name);
        let holds = service.is_some_and(|service| given(&service).contains(item));
        let there = server.get(GROUP, ADDRESSES, "", &item.address);
        let place = place(GROUP, ADDRESSES, "", &item.address);
        match there {
            None if holds => {
                self.door.create(&place, &body(item)).await?;
            }
            Some(there) if !holds && there["spec"]["parentRef"] == parent(item) => {
                let uid = Some(object::uid(&there).to_owned());
                let options = DeleteOptions {
                    uid,
                    ..DeleteOptions::default()
                };
                if let Some(resource) = self.door.resource_at(&place.resource) {
                    self.door.delete(&resource, &place, options).await?;
                }
            }
            _ => {}
        }
        Ok(None)
    }
}

/// The addresses of a Service. One outside of the cluster may name some without holding them.
fn given(service: &Value) -> Vec<Given> {
    if service["spec"]["type"] == "ExternalName" {
        return Vec::new();
    }
    let addresses = service["spec"]["clusterIPs"].as_array();
    addresses
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|address| !matches!(*address, "" | "None"))
        .map(|address| Given {
            address: address.to_owned(),
            namespace: object::namespace(service).to_owned(),
            name: object::name(service).to_owned(),
        })
        .collect()
}

/// What an IPAddress says that was made here.
fn kept(address: &Value) -> Option<Given> {
    let (labels, parent) = (&address["metadata"]["labels"], &address["spec"]["parentRef"]);
    (labels[MANAGED_BY] == ALLOCATOR).then(|| Given {
        address: object::name(address).to_owned(),
        namespace: object::text(parent, "namespace").to_owned(),
        name: object::text(parent, "name").to_owned(),
    })
}

fn parent(item: &Given) -> Value {
    json!({ "resource": "services", "namespace": item.namespace, "name": item.name })
}

fn body(item: &Given) -> Value {
    let family = if item.address.contains(':') { "IPv6" } else { "IPv4" };
    json!({
        "metadata": {
            "name": item.address,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                MANAGED_BY: ALLOCATOR,
            },
        },
        "spec": { "parentRef": parent(item) },
    })
}

//! Says of each API service that another server would answer for whether that server can be reached.
//! In the box none can.

use std::time::Duration;

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Change;
use serde_json::{Value, json};

use super::super::controller::Controller;
use super::super::system_client::{SystemClient, is_of};
use super::{REGISTRATION, place, says};

const SERVICES: &str = "apiservices";
const SLICES: (&str, &str) = ("discovery.k8s.io", "endpointslices");
const SERVICE_NAME: &str = "kubernetes.io/service-name";

pub(in super::super) struct Registrations {
    door: SystemClient,
}

impl Registrations {
    /// What is known of the server behind an API service: its reason and the words for it.
    fn trouble(&self, service: &Value) -> (&'static str, String) {
        let backend = &service["spec"]["service"];
        let name = object::text(backend, "name");
        let namespace = object::text(backend, "namespace");
        let what = format!("service/{name} in {}", go_quote(namespace));
        let Some(found) = self.door.server.get("", "services", namespace, name) else {
            return ("ServiceNotFound", format!("{what} is not present"));
        };
        let port = &backend["port"];
        let known = (found["spec"]["type"] == "ClusterIP")
            .then(|| self.trouble_inside(&found, port, &what))
            .flatten();
        known.unwrap_or_else(|| {
            let address = format!("{}:{port}", object::text(&found["spec"], "clusterIP"));
            let url = format!("https://{address}{}", path_of(service));
            let message = format!(
                "failing or missing response from {url}: Get {}: dial tcp {address}: connect: connection refused",
                go_quote(&url)
            );
            ("FailedDiscoveryCheck", message)
        })
    }

    /// What can be told of a Service with an address without asking anybody.
    fn trouble_inside(&self, service: &Value, port: &Value, what: &str) -> Option<(&'static str, String)> {
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let Some(listening) = ports.find(|there| there["port"] == *port) else {
            let message = format!("{what} is not listening on port {port}");
            return Some(("ServicePortError", message));
        };
        let mut slices = self.door.server.list(SLICES.0, SLICES.1);
        slices.retain(|slice| {
            object::namespace(slice) == object::namespace(service)
                && slice["metadata"]["labels"][SERVICE_NAME] == object::name(service)
        });
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for {what}");
            return Some(("EndpointsNotFound", message));
        }
        let port = object::text(listening, "name");
        let answered = slices.iter().any(|slice| answers(slice, port));
        (!answered).then(|| {
            let port = go_quote(port);
            let message = format!("endpointslices for {what} have no addresses with port name {port}");
            ("MissingEndpoints", message)
        })
    }
}

/// What a server is asked for first.
fn path_of(service: &Value) -> String {
    let group = object::text(&service["spec"], "group");
    let version = object::text(&service["spec"], "version");
    format!("/apis/{group}/{version}")
}

/// Whether a slice has a ready address at a port.
fn answers(slice: &Value, port: &str) -> bool {
    let mut ports = slice["ports"].as_array().into_iter().flatten();
    let mut endpoints = slice["endpoints"].as_array().into_iter().flatten();
    ports.any(|there| object::text(there, "name") == port)
        && endpoints.any(|endpoint| endpoint["conditions"]["ready"] != false)
}

impl Controller for Registrations {
    type Item = String;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::apiserver(server);
        Self { door }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, REGISTRATION, SERVICES) || is_of(change, "", "services") || is_of(change, SLICES.0, SLICES.1)
    }

    fn stock(&self) -> Vec<String> {
        let services = self.door.server.list(REGISTRATION, SERVICES);
        let remote = services.iter().filter(|it| it["spec"]["service"].is_object());
        remote.map(|it| object::name(it).to_owned()).collect()
    }

    fn concerned(&self, change: &Change) -> Vec<String> {
        if is_of(change, REGISTRATION, SERVICES) {
            return vec![change.key.name.clone()];
        }
        self.stock()
    }

    async fn sync(&mut self, name: &String) -> Result<Option<Duration>, ApiError> {
        let server = &self.door.server;
        let Some(service) = server.get(REGISTRATION, SERVICES, "", name) else {
            return Ok(None);
        };
        if !service["spec"]["service"].is_object() {
            return Ok(None);
        }
        let (reason, message) = self.trouble(&service);
        let mut condition = json!({ "type": "Available", "status": "False",
            "reason": reason, "message": message });
        if says(&service, &condition) {
            return Ok(None);
        }
        condition["lastTransitionTime"] = server.clock().now_seconds().into();
        let mut service = Value::clone(&service);
        service["status"] = json!({ "conditions": [condition] });
        let place = place(REGISTRATION, SERVICES, "", name);
        self.door.update_status(&place, &service).await?;
        Ok(None)
    }
}

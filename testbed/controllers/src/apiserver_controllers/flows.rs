//! Says in the status of each flow schema whether its priority level is there.

use std::time::Duration;

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Change;
use serde_json::{Value, json};

use super::super::controller::Controller;
use super::super::system_client::{SystemClient, is_of};
use super::{place, says};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

pub(in super::super) struct FlowSchemas {
    door: SystemClient,
}

impl FlowSchemas {
    fn names(&self, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let schemas = self.door.server.list(GROUP, SCHEMAS);
        let wanted = schemas.iter().filter(|schema| wanted(schema));
        wanted.map(|schema| object::name(schema).to_owned()).collect()
    }
}

impl Controller for FlowSchemas {
    type Item = String;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::apiserver(server);
        Self { door }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, GROUP, SCHEMAS) || is_of(change, GROUP, LEVELS)
    }

    fn stock(&self) -> Vec<String> {
        self.names(|_| true)
    }

    fn concerned(&self, change: &Change) -> Vec<String> {
        if is_of(change, GROUP, SCHEMAS) {
            return vec![change.key.name.clone()];
        }
        if change.old.is_some() && change.new.is_some() {
            return Vec::new();
        }
        self.names(|schema| level(schema) == change.key.name)
    }

    async fn sync(&mut self, name: &String) -> Result<Option<Duration>, ApiError> {
        let server = &self.door.server;
        let Some(schema) = server.get(GROUP, SCHEMAS, "", name) else {
            return Ok(None);
        };
        let level = level(&schema);
        let found = server.get(GROUP, LEVELS, "", level).is_some();
        let named = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named {}",
            go_quote(level)
        );
        let mut condition = if found {
            json!({ "type": "Dangling", "status": "False", "reason": "Found",
                "message": format!("{named} and it exists") })
        } else {
            json!({ "type": "Dangling", "status": "True", "reason": "NotFound",
                "message": format!("{named} but there is no such object") })
        };
        if says(&schema, &condition) {
            return Ok(None);
        }
        condition["lastTransitionTime"] = server.clock().now_seconds().into();
        let body = json!({ "metadata": { "name": name }, "status": { "conditions": [condition] } });
        let place = place(GROUP, SCHEMAS, "", name);
        self.door.apply(&place, Part::Status, MANAGER, &body).await?;
        Ok(None)
    }
}

fn level(schema: &Value) -> &str {
    object::text(&schema["spec"]["priorityLevelConfiguration"], "name")
}

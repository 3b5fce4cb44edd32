//! Roles that are made of others: a ClusterRole with an aggregation rule has the rules of those it
//! selects.
//!
//! What it should have follows from the roles alone. Nothing of it is written but its rules.

use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_apiserver::server::{ApiServer, key_of};
use aplomb_apiserver::storage::Change;
use aplomb_builtin_kinds as kinds;
use serde_json::{Value, json};

use super::controller::Controller;
use super::system_client::{SystemClient, is_of};

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "clusterroles";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Keeps the rules of every role that is made of others.
pub(super) struct RoleAggregation {
    door: SystemClient,
}

impl Controller for RoleAggregation {
    type Item = String;

    fn new(server: &ApiServer) -> Self {
        let door = SystemClient::controller(server, MANAGER);
        Self { door }
    }

    fn door(&self) -> &SystemClient {
        &self.door
    }

    fn follows(change: &Change) -> bool {
        is_of(change, GROUP, ROLES)
    }

    fn stock(&self) -> Vec<String> {
        let roles = self.door.server.list(GROUP, ROLES);
        let made = roles.iter().filter(|role| selectors(role).is_some());
        made.map(|role| object::name(role).to_owned()).collect()
    }

    /// Any role may be a part of any other, also through one in between.
    fn concerned(&self, _change: &Change) -> Vec<String> {
        self.stock()
    }

    async fn sync(&mut self, name: &String) -> Result<Option<Duration>, ApiError> {
        let roles = self.door.server.list(GROUP, ROLES);
        let role = roles.iter().find(|role| object::name(role) == name);
        let Some((role, selectors)) = role.and_then(|role| Some((role, selectors(role)?))) else {
            return Ok(None);
        };
        let rules = aggregated(name, selectors, &roles);
        if rules == rules_of(role) {
            return Ok(None);
        }
        let mut wanted = json!({ "metadata": { "name": name } });
        if !rules.is_empty() {
            wanted["rules"] = rules.into();
        }
        let place = key_of(&GroupResource::new(GROUP, ROLES), None, name);
        self.door.apply(&place, Part::Main, MANAGER, &wanted).await?;
        Ok(None)
    }
}

fn selectors(role: &Value) -> Option<&[Value]> {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors")?;
    selectors.as_array().map(Vec::as_slice)
}

/// No rules and an empty list of them are the same.
fn rules_of(role: &Value) -> &[Value] {
    role["rules"].as_array().map_or(&[], Vec::as_slice)
}

/// The rules of the roles that each selector picks, by their names; each rule once, and none of the
/// role itself.
fn aggregated(name: &str, selectors: &[Value], roles: &[Arc<Value>]) -> Vec<Value> {
    let mut others: Vec<&Arc<Value>> = roles.iter().collect();
    others.retain(|role| object::name(role) != name);
    others.sort_by_key(|role| object::name(role));
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        let picked = |role: &&&Arc<Value>| kinds::selects(selector, &role["metadata"]["labels"]);
        for rule in others.iter().filter(picked).flat_map(|role| rules_of(role)) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, part: &str, verb: &str) -> Arc<Value> {
        let metadata = json!({ "name": name, "labels": { "part-of": part } });
        Arc::new(json!({ "metadata": metadata, "rules": [{ "verbs": [verb] }] }))
    }

    #[test]
    fn each_rule_is_taken_once_in_the_order_of_names_and_never_its_own() {
        let roles = [
            role("c", "whole", "get"),
            role("b", "whole", "list"),
            role("a", "whole", "get"),
            role("other", "none", "delete"),
            role("whole", "whole", "watch"),
        ];
        let selectors = [json!({ "matchLabels": { "part-of": "whole" } })];
        let rules = aggregated("whole", &selectors, &roles);
        assert_eq!(rules, [json!({ "verbs": ["get"] }), json!({ "verbs": ["list"] })]);
    }

    #[test]
    fn selectors_count_in_their_order_and_by_their_expressions() {
        let roles = [role("a", "one", "get"), role("b", "two", "list")];
        let not_one = json!({ "key": "part-of", "operator": "NotIn", "values": ["one"] });
        let selectors = [
            json!({ "matchExpressions": [not_one] }),
            json!({ "matchLabels": { "part-of": "one" } }),
        ];
        let rules = aggregated("whole", &selectors, &roles);
        assert_eq!(rules, [json!({ "verbs": ["list"] }), json!({ "verbs": ["get"] })]);
    }
}

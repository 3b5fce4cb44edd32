//! An object and its relatives as a tree, each with the condition that sums it up.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::relatives::Relative;
use super::{str_at, time_at};

/// An object in the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceNode {
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Its role for the object above.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Whether it exists; `None` if that could not be read.
    pub exists: Option<bool>,
    pub created: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<TraceCondition>,
    /// A summary for kinds without conditions, such as the holder of a Lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The objects that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TraceNode>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceCondition {
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
    /// The time of its last transition.
    pub since: Option<Timestamp>,
    /// Whether it is about the current generation.
    pub current: bool,
}

impl TraceNode {
    #[must_use]
    pub fn summary_condition(&self) -> Option<&TraceCondition> {
        let telling = ["Ready", "Online", "Programmed", "Available", "Accepted"];
        let of = |type_: &&str| self.conditions.iter().find(|it| it.type_ == *type_);
        telling.iter().find_map(of)
    }
}

/// The tree under `object`.
pub(super) fn build_tree(object: &Value, relatives: &[Relative]) -> TraceNode {
    let mut root = object_node(object);
    let uid = str_at(object, "/metadata/uid");
    root.children = child_nodes(&mut vec![uid], relatives);
    root
}

/// The relatives of the last of `above`. A relative that names an object further up, as a claim names its
/// claimant, has no children.
fn child_nodes<'a>(above: &mut Vec<&'a str>, relatives: &'a [Relative]) -> Vec<TraceNode> {
    let of = above.last().copied().unwrap_or_default();
    let mut nodes = Vec::new();
    for relative in relatives.iter().filter(|it| it.parent == of) {
        let own = relative.object.as_ref();
        let own = own.map(|object| str_at(object, "/metadata/uid"));
        if own.is_some_and(|own| above.contains(&own)) {
            continue;
        }
        let mut child = match &relative.object {
            Some(object) => object_node(object),
            None => absent_node(relative),
        };
        child.kind.clone_from(&relative.kind);
        child.role.clone_from(&relative.role);
        if let Some(own) = own.filter(|own| !own.is_empty()) {
            above.push(own);
            child.children = child_nodes(above, relatives);
            above.pop();
        }
        nodes.push(child);
    }
    nodes
}

fn absent_node(relative: &Relative) -> TraceNode {
    TraceNode {
        kind: relative.kind.clone(),
        namespace: relative.namespace.clone(),
        name: relative.name.clone(),
        role: String::new(),
        exists: relative.exists,
        created: None,
        generation: None,
        conditions: Vec::new(),
        note: None,
        children: Vec::new(),
    }
}

fn object_node(object: &Value) -> TraceNode {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let namespace = str_at(object, "/metadata/namespace");
    TraceNode {
        kind: str_at(object, "/kind").to_owned(),
        namespace: Some(namespace.to_owned()).filter(|it| !it.is_empty()),
        name: str_at(object, "/metadata/name").to_owned(),
        role: String::new(),
        exists: Some(true),
        created: time_at(object, "/metadata/creationTimestamp"),
        generation,
        conditions: tree_conditions(object, generation),
        note: object_note(object),
        children: Vec::new(),
    }
}

/// The conditions of the object, and those of a route for each of its parents.
fn tree_conditions(object: &Value, generation: Option<i64>) -> Vec<TraceCondition> {
    let own = object.pointer("/status/conditions").and_then(Value::as_array);
    let parents = object.pointer("/status/parents").and_then(Value::as_array);
    let of_parents = parents.into_iter().flatten();
    let of_parents = of_parents.filter_map(|parent| parent["conditions"].as_array());
    let all = own.into_iter().chain(of_parents).flatten();
    let read = |condition: &Value| {
        let observed = condition["observedGeneration"].as_i64();
        TraceCondition {
            type_: str_at(condition, "/type").to_owned(),
            status: str_at(condition, "/status").to_owned(),
            reason: str_at(condition, "/reason").to_owned(),
            message: str_at(condition, "/message").to_owned(),
            since: time_at(condition, "/lastTransitionTime"),
            current: observed.is_none() || generation.is_none() || observed >= generation,
        }
    };
    all.map(read).collect()
}

/// A summary for kinds without conditions.
fn object_note(object: &Value) -> Option<String> {
    match str_at(object, "/kind") {
        "Lease" => {
            let holder = str_at(object, "/spec/holderIdentity");
            let renewed = str_at(object, "/spec/renewTime");
            Some(match holder {
                "" => "no holder".to_owned(),
                holder => format!("held by {holder}, renewed {renewed}"),
            })
        }
        "EndpointSlice" => {
            let ends = object["endpoints"].as_array().map_or(0, Vec::len);
            Some(format!("{ends} endpoints"))
        }
        "Deployment" => {
            let count = |at: &str| object.pointer(at).and_then(Value::as_i64).unwrap_or_default();
            let (ready, wanted) = (count("/status/readyReplicas"), count("/spec/replicas"));
            Some(format!("{ready}/{wanted} replicas ready"))
        }
        _ => None,
    }
}

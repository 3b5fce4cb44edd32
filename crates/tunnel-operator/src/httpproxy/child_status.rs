//! The status of a tunnel's children, as the Gateway API requires of a class's controller. Pure; transition
//! times change only with the status.

use aplomb::conditions::ConditionStatus;
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{CONTROLLER, HttpProxy, conditions as kinds, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::{Value, json};

use super::decide::is_about_relay;
use crate::httpproxy::{ChildCondition, ChildConditions, Observed};

/// Whether an object is a child of this tunnel, and not an unrelated one with the same name.
pub(crate) fn is_child(meta: &ObjectMeta, proxy: &HttpProxy) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    let controller = owners.find(|it| it.controller == Some(true));
    controller.is_some_and(|it| Some(&it.uid) == proxy.metadata.uid.as_ref())
}

pub(crate) fn gateway_status(gateway: &Gateway, standing: &ChildConditions, world: &Observed) -> Value {
    let had = gateway.status.as_ref();
    let had = had.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let generation = gateway.metadata.generation;
    json!({
        "conditions": [
            build_condition(had, "Accepted", &standing.accepted, generation, world),
            build_condition(had, "Programmed", &standing.programmed, generation, world),
        ],
    })
}

pub(crate) fn route_status(route: &HttpRoute, standing: &ChildConditions, world: &Observed) -> Value {
    let parents = route.status.iter().flat_map(|it| &it.parents);
    let mut ours = parents.filter(|it| it.controller_name == CONTROLLER);
    let had = ours.next().map(|it| it.conditions.as_slice()).unwrap_or_default();
    let generation = route.metadata.generation;
    json!({
        "parents": [{
            "parentRef": {
                "group": "gateway.networking.k8s.io",
                "kind": "Gateway",
                "name": world.proxy.metadata.name,
            },
            "controllerName": CONTROLLER,
            "conditions": [
                build_condition(had, "Accepted", &standing.accepted, generation, world),
                build_condition(had, "ResolvedRefs", &standing.resolved, generation, world),
            ],
        }],
    })
}

fn build_condition(
    had: &[Condition],
    kind: &str,
    said: &ChildCondition,
    generation: Option<i64>,
    world: &Observed,
) -> Condition {
    let before = had
        .iter()
        .find(|it| it.type_ == kind && it.status == said.status.as_str());
    let since = before.map(|it| it.last_transition_time.clone());
    Condition {
        type_: kind.to_owned(),
        status: said.status.as_str().to_owned(),
        reason: said.reason.clone(),
        message: said.message.clone(),
        observed_generation: generation,
        last_transition_time: since.unwrap_or(Time(world.now)),
    }
}

/// The conditions without which children are not served. The first one that is not true provides the reason.
const REQUIRED_CONDITIONS: [&str; 4] = [
    kinds::ACCEPTED,
    kinds::PROGRAMMED,
    kinds::CONNECTOR_METADATA_PROGRAMMED,
    kinds::CONNECTOR_ONLINE,
];

/// The status to write on the children, if it is known.
pub(crate) fn child_conditions(conditions: &[aplomb::Condition]) -> Option<ChildConditions> {
    let find = |kind: &str| conditions.iter().find(|it| it.type_ == kind);
    let yes = |reason: &'static str, message: &str| ChildCondition {
        status: ConditionStatus::True,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let served = "served by every live gateway";
    let mut standing = ChildConditions {
        accepted: yes("Accepted", served),
        programmed: yes("Programmed", served),
        resolved: yes("ResolvedRefs", served),
    };
    let needed = REQUIRED_CONDITIONS.iter().filter_map(|kind| find(kind));
    let lacking: Vec<&aplomb::Condition> = needed.filter(|it| it.status != ConditionStatus::True).collect();
    let ready = find(kinds::READY).is_some_and(|it| it.status == ConditionStatus::True);
    if ready || lacking.is_empty() {
        return Some(standing);
    }
    let pending = lacking.iter().any(|it| it.reason == reasons::PENDING);
    // A missing part takes precedence over a pending one; a relay may not be needed.
    let known = |it: &&&aplomb::Condition| it.reason != reasons::PENDING && !(pending && is_about_relay(it));
    let first = *lacking.iter().find(known)?;
    let said = |it: &aplomb::Condition, reason: &str| ChildCondition {
        status: it.status,
        reason: reason.to_owned(),
        message: it.message.clone(),
    };
    standing.programmed = said(first, &first.reason);
    standing.accepted.message = "accepted by the aplomb operator".to_owned();
    standing.resolved.message = "all references resolve as far as known".to_owned();
    match first.reason.as_str() {
        reasons::QUARANTINED => standing.accepted = said(first, "UnsupportedValue"),
        _ if first.type_ == kinds::ACCEPTED => standing.accepted = said(first, &first.reason),
        _ => {}
    }
    let mut lacking = lacking.iter();
    if let Some(missing) = lacking.find(|it| it.reason == reasons::CONNECTOR_NOT_FOUND) {
        standing.resolved = said(missing, "BackendNotFound");
    }
    Some(standing)
}

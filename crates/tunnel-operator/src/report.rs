//! The status of a tunnel's children, as the Gateway API requires of a class's controller. Pure; transition
//! times change only with the status.

use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{CONTROLLER, HttpProxy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::{Value, json};

use crate::world::{ChildCondition, ChildConditions, Observed};

/// Whether an object is a child of this tunnel, and not an unrelated one with the same name.
pub(crate) fn is_child(meta: &ObjectMeta, proxy: &HttpProxy) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    let controller = owners.find(|it| it.controller == Some(true));
    controller.is_some_and(|it| Some(&it.uid) == proxy.metadata.uid.as_ref())
}

/// The status of a Gateway.
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

/// The status of an HTTPRoute.
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

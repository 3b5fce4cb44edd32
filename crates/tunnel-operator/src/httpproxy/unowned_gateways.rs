//! Gateways without an HTTPProxy: the hostnames they use, which HTTPProxies must not claim, and their status
//! for hostnames that are in use elsewhere, as gateways report it.

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb::{Action, Context, Controller, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{CLASS, GatewayReplica, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::TunnelContext;

/// The index key of Gateways with wildcard listeners.
pub(crate) const WILDCARD: &str = "*";

/// Whether a Gateway is of our class and not controlled by an HTTPProxy.
fn is_unowned(gateway: &Gateway) -> bool {
    gateway.spec.gateway_class_name == CLASS && !is_owned_by_proxy(&gateway.metadata)
}

pub(crate) fn is_owned_by_proxy(meta: &ObjectMeta) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners.any(|it| it.controller == Some(true) && it.kind == "HTTPProxy" && it.api_version.starts_with("aplomb.dev/"))
}

/// The hostnames of a Gateway's listeners. Gateways controlled by an HTTPProxy are included, because an owner
/// reference can be removed later without a change of generation. A wildcard stands for all hostnames.
pub(crate) fn listener_hostnames(gateway: &Gateway) -> Vec<String> {
    let ours = gateway.spec.gateway_class_name == CLASS;
    if !ours || gateway.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let listeners = gateway.spec.listeners.iter();
    let served = listeners.filter(|it| matches!(&*it.protocol, "HTTP" | "HTTPS"));
    let hostnames = served.filter_map(|it| it.hostname.as_deref());
    hostnames
        .map(|it| match it.starts_with("*.") {
            true => WILDCARD.to_owned(),
            false => it.to_ascii_lowercase(),
        })
        .collect()
}

pub(crate) fn route_hostnames(route: &HttpRoute) -> Vec<String> {
    let named = route.spec.hostnames.iter().flatten();
    named.map(|it| it.to_ascii_lowercase()).collect()
}

/// Whether a Gateway serves `hostname` because a route names it under a wildcard listener.
pub(crate) fn has_by_route(gateway: &Gateway, route: &HttpRoute, hostname: &str) -> bool {
    let mut parents = route.spec.parent_refs.iter().flatten();
    let attached = route.metadata.namespace == gateway.metadata.namespace
        && parents.any(|it| Some(&it.name) == gateway.metadata.name.as_ref());
    attached && covers(gateway, hostname) && route_hostnames(route).iter().any(|it| it == hostname)
}

/// Whether a wildcard listener of a Gateway covers `hostname`.
pub(crate) fn covers(gateway: &Gateway, hostname: &str) -> bool {
    let mut listeners = gateway.spec.listeners.iter();
    listeners.any(|it| {
        let wildcard = it.hostname.as_deref().unwrap_or_default();
        let suffix = wildcard.strip_prefix('*').map(str::to_ascii_lowercase);
        suffix.is_some_and(|suffix| hostname.ends_with(&suffix))
    })
}

/// Whether a Gateway has certainly had its hostnames since before `claimed`: only if its spec never changed.
pub(crate) fn is_older_than(gateway: &Gateway, claimed: Option<&Time>) -> bool {
    let created = gateway.metadata.creation_timestamp.as_ref();
    is_unowned(gateway)
        && gateway.metadata.generation == Some(1)
        && created
            .zip(claimed)
            .is_some_and(|(created, claimed)| created.0 < claimed.0)
}

/// The controller that reports, on Gateways without an HTTPProxy, the hostnames that they do not get.
pub(crate) fn controller(office: &TunnelContext) -> Controller<Gateway> {
    let run = office.clone();
    let within = Scope {
        namespace: Some(office.namespace.to_string()),
        ..Scope::default()
    };
    Controller::new("aplomb-gateways", move |gateway, cx| {
        let office = run.clone();
        async move { reconcile(&gateway, &cx, &office).await }
    })
    .without_status()
    .predicate(Predicate::generation_changed())
    .watches::<GatewayReplica>(within, Predicate::changed_by(rejected_objects), |replica, _| {
        rejected_objects(replica).into_iter().map(|(key, _)| key).collect()
    })
}

/// The objects for which a gateway reports hostnames in use, and its message.
fn rejected_objects(replica: &GatewayReplica) -> BTreeSet<(ObjectKey, String)> {
    let all = replica.spec.quarantined_routes();
    all.filter_map(|(namespace, name, reason)| {
        // Another problem of the object, or of a route with its name, may come first.
        let parts = reason?.split("; ");
        let parts = parts.filter(|it| it.starts_with(reasons::HOSTNAME_IN_USE));
        let reason = parts.collect::<Vec<_>>().join("; ");
        (!reason.is_empty()).then(|| (ObjectKey::new(Some(namespace), name), reason))
    })
    .collect()
}

/// Whether a gateway may have omitted this object from its report.
fn is_list_incomplete(replica: &GatewayReplica, key: &ObjectKey) -> bool {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let mut all = replica.spec.quarantined_routes();
    replica.spec.is_incomplete(namespace)
        || all.any(|(ns, name, why)| ns == namespace && name == &*key.name && why.is_none())
}

async fn reconcile(gateway: &Arc<Gateway>, cx: &Context<Gateway>, office: &TunnelContext) -> Result<Action> {
    let controlled = gateway.metadata.owner_references.iter().flatten();
    if !is_unowned(gateway) || controlled.clone().any(|it| it.controller == Some(true)) {
        return Ok(Action::Done);
    }
    let (key, now) = (View::meta(&**gateway).key(), Instant::now());
    let replicas = cx.cache::<GatewayReplica>()?.list();
    let live = replicas.iter().filter(|it| office.replica_heartbeats.is_live(it, now));
    let live: Vec<_> = live.collect();
    // Listed without a reason, or possibly not at all: the previous status stays.
    let unsaid = live.iter().any(|it| is_list_incomplete(it, &key));
    let said = live.iter().flat_map(|it| rejected_objects(it));
    let reason = said.filter(|(it, _)| *it == key).map(|(_, reason)| reason).next();
    let had = gateway.status.as_ref().and_then(|it| it.conditions.as_deref());
    let mut had = had.unwrap_or_default().iter();
    let refused_before = had.any(|it| it.reason == reasons::HOSTNAME_IN_USE);
    if reason.is_some() || (refused_before && !unsaid) {
        let status = gateway_status(gateway, reason.as_deref(), office.clock.now());
        cx.apply_child_status::<Gateway>(&key, status).await?;
    }
    Ok(Action::Done)
}

/// The status of a Gateway with hostnames that are in use elsewhere, or not anymore.
fn gateway_status(gateway: &Gateway, reason: Option<&str>, now: Timestamp) -> Value {
    let had = gateway.status.as_ref();
    let generation = gateway.metadata.generation;
    let Some(reason) = reason else {
        let had = had.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
        let message = "no hostname is in use elsewhere anymore";
        let free = build_condition(
            had,
            ("Programmed", "Unknown", reasons::PENDING, message),
            generation,
            now,
        );
        return json!({ "conditions": [free] });
    };
    let message = reason.split_once(": ").map_or(reason, |(_, message)| message);
    let no = |had: &[Condition], kind: &str| {
        let said = (kind, "False", reasons::HOSTNAME_IN_USE, message);
        build_condition(had, said, generation, now)
    };
    let listeners = gateway.spec.listeners.iter().filter_map(|listener| {
        let hostname = listener.hostname.as_deref()?.to_ascii_lowercase();
        let mut words = message.split([' ', ';']);
        words.find(|word| *word == hostname)?;
        let mut before = had.iter().flat_map(|it| it.listeners.iter().flatten());
        let before = before.find(|it| it.name == listener.name);
        let before = before.map_or(&[][..], |it| &it.conditions);
        Some(json!({
            "name": listener.name,
            "attachedRoutes": 0,
            "supportedKinds": [],
            "conditions": [no(before, "Accepted"), no(before, "Programmed")],
        }))
    });
    let had = had.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    json!({ "conditions": [no(had, "Programmed")], "listeners": listeners.collect::<Vec<_>>() })
}

fn build_condition(
    had: &[Condition],
    (kind, status, reason, message): (&str, &str, &str, &str),
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let before = had.iter().find(|it| it.type_ == kind && it.status == status);
    let since = before.map(|it| it.last_transition_time.clone());
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: since.unwrap_or(Time(now)),
    }
}

//! The controller of the gateway: its watches, their predicates, and its reconcile.
//!
//! It reconciles the namespace of the replica, because that exists before the replica's own record. Every
//! pass builds the whole table; `pace` decides when to publish a report.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Predicate, Result, Scope, View};
use aplomb_api::tunnel::{ConnectorClass, GatewayReplica, HostnameClaim, canonical_label};
use k8s_openapi::api::core::v1::Namespace;
use tokio::time::Instant;

use crate::act::Act;
use crate::decide::decide;
use crate::interest::is_ours;
use crate::observe::{BY_LABEL, Observed, Observer};
use crate::office::GatewayContext;
use crate::views::{
    GatewayConnectorView, GatewayView, ProxyView, RouteView, SliceView, TlsSecretView,
};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-gateway";
/// Timeout of a pass.
const PASS: Duration = Duration::from_secs(5);

/// The controller. It runs on every replica.
pub(crate) fn controller(office: &GatewayContext) -> Controller<Namespace> {
    let run = office.clone();
    let pass = move |_: Arc<Namespace>, cx: Context<Namespace>| {
        let office = run.clone();
        async move { reconcile(&cx, &office).await }
    };
    let controller = Controller::new(NAME, pass)
        .everywhere()
        .within(named(None, &office.place.namespace))
        .lens(Predicate::comparing(|_, _| true))
        .deadline(PASS)
        .workers(1)
        .poked_by(&office.poke, "session");
    itself(routing(backends(controller, office), office), office)
}

/// One object.
fn named(namespace: Option<&str>, name: &str) -> Scope {
    Scope {
        namespace: namespace.map(str::to_owned),
        fields: Some(format!("metadata.name={name}")),
        labels: None,
    }
}

/// Gateways, routes, and the objects that determine who owns a hostname.
fn routing(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (gateways, routes) = (office.clone(), office.clone());
    let (claims, proxies) = (office.clone(), office.clone());
    controller
        .index::<ProxyView>(Scope::default(), BY_LABEL, |proxy| {
            vec![canonical_label(proxy.meta().uid)]
        })
        .watches::<GatewayView>(
            Scope::default(),
            Predicate::comparing(|old: &GatewayView, new| {
                old.spec == new.spec && old.metadata.says_as(&new.metadata)
            }),
            move |gateway, _| gateways.concern("Gateway", gateway.meta(), |_| is_ours(gateway)),
        )
        .watches::<RouteView>(
            Scope::default(),
            Predicate::comparing(|old: &RouteView, new| {
                old.spec == new.spec && old.metadata.says_as(&new.metadata)
            }),
            move |route, _| routes.concern("HTTPRoute", route.meta(), |it| it.attaches(route)),
        )
        .watches::<HostnameClaim>(
            Scope::default(),
            Predicate::fields(|claim: &HostnameClaim| claim.spec.clone()),
            move |claim, _| {
                let meta = View::meta(claim);
                claims.concern("HostnameClaim", meta, |it| it.names(meta.name))
            },
        )
        .watches::<ProxyView>(
            Scope::default(),
            Predicate::comparing(|_, _| true),
            move |proxy, _| {
                // No revision of it is acknowledged, so no writer waits for it.
                let key = proxy.meta().key();
                let concerns = proxies.interests.has(|it| it.proxies.contains(&key));
                concerns.then(|| proxies.home()).into_iter().collect()
            },
        )
}

/// Backends and certificates.
fn backends(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (slices, connectors, secrets) = (office.clone(), office.clone(), office.clone());
    let id = office.place.endpoint_id.clone();
    controller
        .watches::<SliceView>(
            Scope::default(),
            Predicate::comparing(|old: &SliceView, new| {
                old.endpoints == new.endpoints && old.metadata.says_as(&new.metadata)
            }),
            move |slice, _| {
                let key = slice.meta().key();
                slices.concern("EndpointSlice", slice.meta(), |it| it.slices.contains(&key))
            },
        )
        .watches::<GatewayConnectorView>(
            Scope::default(),
            Predicate::fields(move |it: &GatewayConnectorView| {
                let details = it.status.connection_details.clone();
                (details, it.released(), it.lists(&id))
            }),
            move |it, _| {
                let key = it.meta().key();
                connectors.concern("Connector", it.meta(), |it| it.connectors.contains(&key))
            },
        )
        .watches::<TlsSecretView>(
            Scope {
                fields: Some("type=kubernetes.io/tls".to_owned()),
                ..Scope::default()
            },
            Predicate::comparing(|old: &TlsSecretView, new| old.data == new.data),
            move |secret, _| {
                let key = secret.meta().key();
                secrets.concern("Secret", secret.meta(), |it| it.secrets.contains(&key))
            },
        )
}

/// Objects about this replica.
fn itself(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (classes, own) = (office.clone(), office.clone());
    controller
        .watches_if_possible::<ConnectorClass>(
            Scope::default(),
            Predicate::fields(|class: &ConnectorClass| {
                let spec = &class.spec;
                (
                    spec.controller_name.clone(),
                    spec.relays.clone(),
                    spec.domain.clone(),
                    spec.backend_networks.clone(),
                )
            }),
            move |_, _| vec![classes.home()],
        )
        // Only this replica writes it. Its deletion by another client passes every predicate.
        .watches::<GatewayReplica>(
            named(Some(&office.place.namespace), &office.place.identity),
            Predicate::comparing(|_, _| true),
            move |_, _| vec![own.home()],
        )
}

/// Observes, decides, serves, and publishes a report if one is due.
async fn reconcile(cx: &Context<Namespace>, office: &GatewayContext) -> Result<Action> {
    let began = Instant::now();
    let rest = office.memory().rest(began);
    if let Some(rest) = rest.filter(|_| !office.is_leaving()) {
        return Ok(Action::Recheck(rest));
    }
    let Observed { world, again } = Observer { cx, office }.observe()?;
    let plan = decide(&world);
    let act = Act { cx, office };
    act.serve(plan.table, &plan.report);
    office.memory().built(began.elapsed(), Instant::now());
    if office.is_leaving() {
        act.withdraw().await?;
        return Ok(Action::Settled);
    }
    let words = act.words(&plan.report);
    let first = office.memory().first_word(again);
    let due_at = due(cx, office, &words)?;
    // Read after the due time was computed, so that a report that is due at once counts as due.
    let now = Instant::now();
    if due_at <= now && first.is_none_or(|first| first <= now) {
        act.publish(words.clone()).await;
    }
    let next = due(cx, office, &words)?;
    let next = first.map_or(next, |first| next.max(first));
    let next = again.map_or(next, |again| again.min(next));
    Ok(Action::Recheck(
        next.saturating_duration_since(Instant::now()),
    ))
}

/// When the report is due.
fn due(
    cx: &Context<Namespace>,
    office: &GatewayContext,
    words: &aplomb_api::tunnel::GatewayReplicaSpec,
) -> Result<Instant> {
    let (gateways, routes) = (cx.cache::<GatewayView>()?, cx.cache::<RouteView>()?);
    let (slices, connectors) = (
        cx.cache::<SliceView>()?,
        cx.cache::<GatewayConnectorView>()?,
    );
    let (secrets, claims) = (cx.cache::<TlsSecretView>()?, cx.cache::<HostnameClaim>()?);
    let listed = cx.cache::<GatewayReplica>()?.get(&office.own()).is_some();
    let mut memory = office.memory();
    if !listed {
        memory.pace.forgotten();
    }
    let exists = |kind: &str, key: &aplomb::ObjectKey| match kind {
        "Gateway" => gateways.get(key).is_some(),
        "HTTPRoute" => routes.get(key).is_some(),
        "EndpointSlice" => slices.get(key).is_some(),
        "Connector" => connectors.get(key).is_some(),
        "Secret" => secrets.get(key).is_some(),
        _ => claims.get(key).is_some(),
    };
    Ok(memory.pace.due(words, exists, Instant::now()))
}

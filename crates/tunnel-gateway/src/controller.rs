//! The controller of the gateway: which watches it reads, what of them concerns it, and its pass.
//!
//! It runs for the namespace that the replica lives in, since that is there before the replica has said
//! anything of itself. Every pass builds the whole table; whether something is said of it is a matter
//! of pace.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Predicate, Result, Scope, View};
use aplomb_api::tunnel::{ConnectorClass, GatewayReplica, HostnameClaim, canonical_label};
use k8s_openapi::api::core::v1::Namespace;
use tokio::time::Instant;

use crate::act::Act;
use crate::decide::decide;
use crate::interest::is_our_class;
use crate::observe::{BY_LABEL, Observed, Observer};
use crate::office::GatewayContext;
use crate::views::{
    GatewayConnectorView, GatewayView, ProxyView, RouteView, SliceView, TlsSecretView,
};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-gateway";
/// How long one pass may take.
const PASS_TIMEOUT: Duration = Duration::from_secs(5);

/// The controller, on every replica.
pub(crate) fn controller(office: &GatewayContext) -> Controller<Namespace> {
    let run = office.clone();
    let pass = move |_: Arc<Namespace>, cx: Context<Namespace>| {
        let office = run.clone();
        async move { reconcile(&cx, &office).await }
    };
    let controller = Controller::new(NAME, pass)
        .everywhere()
        .within(single_object(None, &office.replica.namespace))
        .lens(Predicate::comparing(|_, _| true))
        .deadline(PASS_TIMEOUT)
        .workers(1)
        .poked_by(&office.trigger, "session");
    watch_replica(watch_routing(watch_backends(controller, office), office), office)
}

/// One object.
fn single_object(namespace: Option<&str>, name: &str) -> Scope {
    Scope {
        namespace: namespace.map(str::to_owned),
        fields: Some(format!("metadata.name={name}")),
        labels: None,
    }
}

/// Gateways, their routes, and what says whose a hostname is.
fn watch_routing(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (gateways, routes) = (office.clone(), office.clone());
    let (claims, proxies) = (office.clone(), office.clone());
    controller
        .index::<ProxyView>(Scope::default(), BY_LABEL, |proxy| {
            vec![canonical_label(proxy.meta().uid)]
        })
        .watches::<GatewayView>(
            Scope::default(),
            Predicate::comparing(|old: &GatewayView, new| {
                old.spec == new.spec && old.metadata.has_same_content(&new.metadata)
            }),
            move |gateway, _| gateways.affected_by("Gateway", gateway.meta(), |_| is_our_class(gateway)),
        )
        .watches::<RouteView>(
            Scope::default(),
            Predicate::comparing(|old: &RouteView, new| {
                old.spec == new.spec && old.metadata.has_same_content(&new.metadata)
            }),
            move |route, _| routes.affected_by("HTTPRoute", route.meta(), |it| it.attaches_route(route)),
        )
        .watches::<HostnameClaim>(
            Scope::default(),
            Predicate::fields(|claim: &HostnameClaim| claim.spec.clone()),
            move |claim, _| {
                let meta = View::meta(claim);
                claims.affected_by("HostnameClaim", meta, |it| it.names_hostname(meta.name))
            },
        )
        .watches::<ProxyView>(
            Scope::default(),
            Predicate::comparing(|_, _| true),
            move |proxy, _| {
                // Nobody waits to hear of it: it has no version in what is acknowledged.
                let key = proxy.meta().key();
                let concerns = proxies.references.matches(|it| it.proxies.contains(&key));
                concerns.then(|| proxies.pass_key()).into_iter().collect()
            },
        )
}

/// Where requests go, and with which certificate they come.
fn watch_backends(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (slices, connectors, secrets) = (office.clone(), office.clone(), office.clone());
    let id = office.replica.endpoint_id.clone();
    controller
        .watches::<SliceView>(
            Scope::default(),
            Predicate::comparing(|old: &SliceView, new| {
                old.endpoints == new.endpoints && old.metadata.has_same_content(&new.metadata)
            }),
            move |slice, _| {
                let key = slice.meta().key();
                slices.affected_by("EndpointSlice", slice.meta(), |it| it.slices.contains(&key))
            },
        )
        .watches::<GatewayConnectorView>(
            Scope::default(),
            Predicate::fields(move |it: &GatewayConnectorView| {
                let details = it.status.connection_details.clone();
                (details, it.is_released(), it.lists_gateway(&id))
            }),
            move |it, _| {
                let key = it.meta().key();
                connectors.affected_by("Connector", it.meta(), |it| it.connectors.contains(&key))
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
                secrets.affected_by("Secret", secret.meta(), |it| it.secrets.contains(&key))
            },
        )
}

/// What is told of this replica and to it.
fn watch_replica(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
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
            move |_, _| vec![classes.pass_key()],
        )
        // It writes it itself; that somebody has deleted it passes any lens.
        .watches::<GatewayReplica>(
            single_object(Some(&office.replica.namespace), &office.replica.identity),
            Predicate::comparing(|_, _| true),
            move |_, _| vec![own.pass_key()],
        )
}

/// Observes, decides, serves; and speaks if it is time to.
async fn reconcile(cx: &Context<Namespace>, office: &GatewayContext) -> Result<Action> {
    let began = Instant::now();
    let rest = office.state().rest(began);
    if let Some(rest) = rest.filter(|_| !office.is_leaving()) {
        return Ok(Action::Recheck(rest));
    }
    let Observed { inputs: world, requeue_at: again } = Observer { cx, office }.observe()?;
    let plan = decide(&world);
    let act = Act { cx, office };
    act.install_table(plan.table, &plan.report);
    office.state().record_build(began.elapsed(), Instant::now());
    if office.is_leaving() {
        act.delete_replica().await?;
        return Ok(Action::Settled);
    }
    let words = act.replica_spec(&plan.report);
    let first = office.state().first_publish_at(again);
    let due_at = publish_due(cx, office, &words)?;
    // Looked at after what is due was found out: what is due at once is due by then.
    let now = Instant::now();
    if due_at <= now && first.is_none_or(|first| first <= now) {
        act.publish_replica(words.clone()).await;
    }
    let next = publish_due(cx, office, &words)?;
    let next = first.map_or(next, |first| next.max(first));
    let next = again.map_or(next, |again| again.min(next));
    Ok(Action::Recheck(
        next.saturating_duration_since(Instant::now()),
    ))
}

/// When the words are to be said.
fn publish_due(
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
    let listed = cx.cache::<GatewayReplica>()?.get(&office.replica_key()).is_some();
    let mut memory = office.state();
    if !listed {
        memory.schedule.reset_published();
    }
    let exists = |kind: &str, key: &aplomb::ObjectKey| match kind {
        "Gateway" => gateways.get(key).is_some(),
        "HTTPRoute" => routes.get(key).is_some(),
        "EndpointSlice" => slices.get(key).is_some(),
        "Connector" => connectors.get(key).is_some(),
        "Secret" => secrets.get(key).is_some(),
        _ => claims.get(key).is_some(),
    };
    Ok(memory.schedule.next_publish_at(words, exists, Instant::now()))
}

//! The controller of the gateway: its watches, their predicates, and its reconcile.
//!
//! It reconciles the namespace of the replica, because that exists before the replica's own record. Every
//! pass builds the whole table; `publish_schedule` decides when to publish a report.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Predicate, Result, Scope, View};
use aplomb_api::tunnel::{ConnectorClass, GatewayReplica, HostnameClaim, canonical_label};
use k8s_openapi::api::core::v1::Namespace;
use tokio::time::Instant;

use crate::control::act::Act;
use crate::control::context::GatewayContext;
use crate::control::decide::decide;
use crate::control::observe::{BY_LABEL, Observed, Observer};
use crate::control::references::is_our_class;
use crate::control::views::{GatewayConnectorView, GatewayView, ProxyView, RouteView, SliceView, TlsSecretView};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-gateway";
const PASS_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn controller(office: &GatewayContext) -> Controller<Namespace> {
    let run = office.clone();
    let pass = move |_: Arc<Namespace>, cx: Context<Namespace>| {
        let office = run.clone();
        async move { reconcile(&cx, &office).await }
    };
    let controller = Controller::new(NAME, pass)
        .without_leader_election()
        .in_scope(single_object(None, &office.replica.namespace))
        .predicate(Predicate::unless_same(|_, _| true))
        .deadline(PASS_TIMEOUT)
        .workers(1)
        .triggered_by(&office.trigger, "session");
    watch_replica(watch_routing(watch_backends(controller, office), office), office)
}

fn single_object(namespace: Option<&str>, name: &str) -> Scope {
    Scope {
        namespace: namespace.map(str::to_owned),
        fields: Some(format!("metadata.name={name}")),
        labels: None,
    }
}

/// Gateways, routes, and the objects that determine who owns a hostname.
fn watch_routing(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (gateways, routes) = (office.clone(), office.clone());
    let (claims, proxies) = (office.clone(), office.clone());
    controller
        .index::<ProxyView>(Scope::default(), BY_LABEL, |proxy| {
            vec![canonical_label(proxy.meta().uid)]
        })
        .watches::<GatewayView>(
            Scope::default(),
            Predicate::unless_same(|old: &GatewayView, new| {
                old.spec == new.spec && old.metadata.has_same_content(&new.metadata)
            }),
            move |gateway, _| gateways.affected_by("Gateway", gateway.meta(), |_| is_our_class(gateway)),
        )
        .watches::<RouteView>(
            Scope::default(),
            Predicate::unless_same(|old: &RouteView, new| {
                old.spec == new.spec && old.metadata.has_same_content(&new.metadata)
            }),
            move |route, _| routes.affected_by("HTTPRoute", route.meta(), |it| it.attaches_route(route)),
        )
        .watches::<HostnameClaim>(
            Scope::default(),
            Predicate::changed_by(|claim: &HostnameClaim| claim.spec.clone()),
            move |claim, _| {
                let meta = View::meta(claim);
                claims.affected_by("HostnameClaim", meta, |it| it.names_hostname(meta.name))
            },
        )
        .watches::<ProxyView>(
            Scope::default(),
            Predicate::unless_same(|_, _| true),
            move |proxy, _| {
                // No revision of it is acknowledged, so no writer waits for it.
                let key = proxy.meta().key();
                let concerns = proxies.references.matches(|it| it.proxies.contains(&key));
                concerns.then(|| proxies.pass_key()).into_iter().collect()
            },
        )
}

fn watch_backends(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (slices, connectors, secrets) = (office.clone(), office.clone(), office.clone());
    let id = office.replica.endpoint_id.clone();
    controller
        .watches::<SliceView>(
            Scope::default(),
            Predicate::unless_same(|old: &SliceView, new| {
                old.endpoints == new.endpoints && old.metadata.has_same_content(&new.metadata)
            }),
            move |slice, _| {
                let key = slice.meta().key();
                slices.affected_by("EndpointSlice", slice.meta(), |it| it.slices.contains(&key))
            },
        )
        .watches::<GatewayConnectorView>(
            Scope::default(),
            Predicate::changed_by(move |it: &GatewayConnectorView| {
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
            Predicate::unless_same(|old: &TlsSecretView, new| old.data == new.data),
            move |secret, _| {
                let key = secret.meta().key();
                secrets.affected_by("Secret", secret.meta(), |it| it.secrets.contains(&key))
            },
        )
}

fn watch_replica(controller: Controller<Namespace>, office: &GatewayContext) -> Controller<Namespace> {
    let (classes, own) = (office.clone(), office.clone());
    controller
        .watches_optional::<ConnectorClass>(
            Scope::default(),
            Predicate::changed_by(|class: &ConnectorClass| {
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
        // Only this replica writes it. Its deletion by another client passes every predicate.
        .watches::<GatewayReplica>(
            single_object(Some(&office.replica.namespace), &office.replica.identity),
            Predicate::unless_same(|_, _| true),
            move |_, _| vec![own.pass_key()],
        )
}

/// Observes, decides, serves, and publishes a report if one is due.
async fn reconcile(cx: &Context<Namespace>, office: &GatewayContext) -> Result<Action> {
    let began = Instant::now();
    let rest = office.state().rest(began);
    if let Some(rest) = rest.filter(|_| !office.is_leaving()) {
        return Ok(Action::RequeueAfter(rest));
    }
    let Observed {
        inputs: world,
        requeue_at: again,
    } = Observer { cx, office }.observe()?;
    let plan = decide(&world);
    let act = Act { cx, office };
    act.install_table(plan.table, &plan.report);
    office.state().record_build(began.elapsed(), Instant::now());
    if office.is_leaving() {
        act.delete_replica().await?;
        return Ok(Action::Done);
    }
    let words = act.replica_spec(&plan.report);
    let first = office.state().first_publish_at(again);
    let due_at = publish_due(cx, office, &words)?;
    // Read after the due time was computed, so that a report that is due at once counts as due.
    let now = Instant::now();
    if due_at <= now && first.is_none_or(|first| first <= now) {
        act.publish_replica(words.clone()).await;
    }
    let next = publish_due(cx, office, &words)?;
    let next = first.map_or(next, |first| next.max(first));
    let next = again.map_or(next, |again| again.min(next));
    Ok(Action::RequeueAfter(next.saturating_duration_since(Instant::now())))
}

fn publish_due(
    cx: &Context<Namespace>,
    office: &GatewayContext,
    words: &aplomb_api::tunnel::GatewayReplicaSpec,
) -> Result<Instant> {
    let (gateways, routes) = (cx.cache::<GatewayView>()?, cx.cache::<RouteView>()?);
    let (slices, connectors) = (cx.cache::<SliceView>()?, cx.cache::<GatewayConnectorView>()?);
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

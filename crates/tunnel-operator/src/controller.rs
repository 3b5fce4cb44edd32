//! The wiring: which kinds are watched, through which lens, and which tunnels run when one changes. And
//! the round of observing, deciding and acting, one step at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::{Action, Cache, Context, Controller, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{
    ConnectorClass, GatewayReplica, HostnameClaim, HttpProxy, canonical_label, conditions,
    split_canonical,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::act::Act;
use crate::decide::decide;
use crate::state::{BY_CONNECTOR, BY_HOSTNAME};
use crate::observe::{BY_CLAIMANT, BY_LABEL, BY_LISTENER, BY_ROUTE, Observer, connector_names};
use crate::context::TunnelContext;
use crate::unowned_gateways;
use crate::views::ConnectorView;
use crate::world::{Plan, Progress};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-tunnel";

/// How many tunnels are worked on at once: a pass mostly waits for servers.
const WORKERS: usize = 64;
/// How long one pass may take: a few writes and two rounds of proofs.
const PASS_TIMEOUT: Duration = Duration::from_secs(30);
/// More steps than any spec can need: a pass that takes them is undone by somebody, and starts anew.
const MAX_STEPS: usize = 64;
/// The conditions of ours that a plan may leave out.
const OPTIONAL_CONDITIONS: [&str; 9] = [
    conditions::ACCEPTED,
    conditions::PROGRAMMED,
    conditions::CONNECTOR_METADATA_PROGRAMMED,
    conditions::HOSTNAMES_VERIFIED,
    conditions::HOSTNAMES_IN_USE,
    conditions::CERTIFICATES_READY,
    conditions::CONNECTOR_ONLINE,
    conditions::ORIGIN_REACHABLE,
    aplomb::conditions::RECONCILING,
];

/// The controller of HTTPProxy.
pub(crate) fn controller(office: &TunnelContext) -> Controller<HttpProxy> {
    let (run, farewell) = (office.clone(), office.clone());
    let controller = Controller::new(NAME, move |proxy, cx| {
        let office = run.clone();
        async move {
            let ended = reconcile(&proxy, &cx, &office).await;
            let key = View::meta(&*proxy).key();
            if cx.cache::<HttpProxy>()?.get(&key).is_none() {
                // Deleted during the pass, which has brought some of it back.
                office.on_tunnel_deleted(&key);
            }
            ended
        }
    });
    let controller = watch_inputs(add_indexes(controller), office);
    controller
        .owns::<Gateway>(Predicate::desired())
        .owns::<HttpRoute>(Predicate::desired())
        .owns::<EndpointSlice>(Predicate::everything())
        .poked_by(&office.proxy_trigger, "proof")
        .forgets(move |key| farewell.on_tunnel_deleted(key))
        .workers(WORKERS)
        .deadline(PASS_TIMEOUT)
}

fn add_indexes(controller: Controller<HttpProxy>) -> Controller<HttpProxy> {
    controller
        .index::<HttpProxy>(Scope::default(), BY_CONNECTOR, |proxy| {
            let namespace = proxy.metadata.namespace.as_deref().unwrap_or_default();
            let names = connector_names(proxy);
            names
                .iter()
                .map(|name| format!("{namespace}/{name}"))
                .collect()
        })
        .index::<HttpProxy>(Scope::default(), BY_HOSTNAME, |proxy| {
            proxy.spec.hostnames.clone()
        })
        .index::<HttpProxy>(Scope::default(), BY_LABEL, |proxy| {
            vec![canonical_label(View::meta(proxy).uid)]
        })
        .index::<Gateway>(Scope::default(), BY_LISTENER, unowned_gateways::listener_hostnames)
        .index::<HttpRoute>(Scope::default(), BY_ROUTE, unowned_gateways::route_hostnames)
        .index::<HostnameClaim>(Scope::default(), BY_CLAIMANT, |claim| {
            vec![claim.spec.claimant.uid.clone()]
        })
}

fn watch_inputs(controller: Controller<HttpProxy>, office: &TunnelContext) -> Controller<HttpProxy> {
    let (replicas, concerned) = (office.replica_heartbeats.clone(), office.state.clone());
    let heard = office.state.clone();
    controller
        .watches::<ConnectorView>(
            Scope::default(),
            Predicate::fields(ConnectorView::tunnel_inputs),
            move |connector, all| {
                heard.record_connector(connector);
                keys(&all.by(BY_CONNECTOR, &connector.meta().key().to_string()))
            },
        )
        .watches::<ConnectorClass>(
            Scope::default(),
            Predicate::fields(|class: &ConnectorClass| {
                (
                    class.spec.domain.clone(),
                    class.spec.backend_networks.clone(),
                )
            }),
            |class, all| {
                let name = class.metadata.name.as_deref();
                let mut all = all.list();
                // What is reserved depends on the domains of all classes.
                let shaped = |hostname: &String| split_canonical(hostname).is_some();
                all.retain(|proxy| {
                    Some(&*proxy.spec.connector_class_name) == name
                        || proxy.spec.hostnames.iter().any(shaped)
                });
                keys(&all)
            },
        )
        .watches::<Gateway>(Scope::default(), Predicate::generation(), |gateway, all| {
            let named = unowned_gateways::listener_hostnames(gateway);
            let mut asked = with_hostnames(&named, all);
            if named.iter().any(|it| it == unowned_gateways::WILDCARD) {
                // Its routes have hostnames under the wildcard, and lose them with it.
                let mut under = all.list();
                let covered = |hostname: &String| unowned_gateways::covers(gateway, hostname);
                under.retain(|proxy| proxy.spec.hostnames.iter().any(covered));
                asked.extend(keys(&under));
            }
            asked
        })
        .watches::<HttpRoute>(Scope::default(), Predicate::generation(), |route, all| {
            let ours = unowned_gateways::is_owned_by_proxy(&route.metadata);
            let named = unowned_gateways::route_hostnames(route);
            with_hostnames(if ours { &[] } else { &named }, all)
        })
        .watches::<HostnameClaim>(Scope::default(), Predicate::everything(), |claim, all| {
            keys(&all.by(BY_HOSTNAME, claim.meta().name))
        })
        .watches::<GatewayReplica>(
            Scope {
                namespace: Some(office.namespace.to_string()),
                ..Scope::default()
            },
            Predicate::comparing(move |old: &GatewayReplica, new| {
                replicas.record(new);
                spec_without_heartbeat(old) == spec_without_heartbeat(new)
            }),
            move |replica, all| concerned.affected_by(replica, all),
        )
}

/// What a gateway says besides being alive.
fn spec_without_heartbeat(replica: &GatewayReplica) -> aplomb_api::tunnel::GatewayReplicaSpec {
    let mut spec = replica.spec.clone();
    spec.renew_time = None;
    spec
}

/// Those that ask for one of these hostnames.
fn with_hostnames(hostnames: &[String], all: &Cache<HttpProxy>) -> Vec<ObjectKey> {
    let asked = hostnames
        .iter()
        .flat_map(|it| keys(&all.by(BY_HOSTNAME, it)));
    asked.collect()
}

fn keys(all: &[Arc<HttpProxy>]) -> Vec<ObjectKey> {
    all.iter().map(|proxy| View::meta(&**proxy).key()).collect()
}

/// Observes, decides and takes one step, until there is none to take.
async fn reconcile(
    proxy: &Arc<HttpProxy>,
    cx: &Context<HttpProxy>,
    office: &TunnelContext,
) -> Result<Action> {
    if proxy.metadata.deletion_timestamp.is_some() {
        // Its children go with it, its claims are swept, and nothing else holds it.
        return Ok(Action::Settled);
    }
    let key = View::meta(&**proxy).key();
    let observer = Observer {
        proxy,
        cx,
        office,
        key: &key,
        began: office.clock.now(),
    };
    let uid = View::meta(&**proxy).uid.to_owned();
    let mut progress = Progress {
        timeline: office.state.timeline(&key, &uid),
        ..Progress::default()
    };
    for _ in 0..MAX_STEPS {
        let world = observer.observe(&progress)?;
        let plan = decide(&world);
        progress.timeline = plan.status.timeline.clone();
        if let Some(timeline) = &progress.timeline {
            office.state.record_timeline(&key, &uid, timeline.clone());
        }
        publish_status(cx, &plan);
        let Some(step) = &plan.step else {
            return Ok(finish_pass(cx, office, &key, proxy, plan));
        };
        let act = Act {
            cx,
            office,
            key: &key,
            world: &world,
            plan: &plan,
        };
        act.execute(step, &mut progress).await?;
        if progress.deleted {
            cx.gone();
            return Ok(Action::Settled);
        }
    }
    Ok(Action::Recheck(Duration::ZERO))
}

/// Lays down what the plan says. Written when the pass ends; after a conflict nothing of it is.
fn publish_status(cx: &Context<HttpProxy>, plan: &Plan) {
    cx.status(&plan.status);
    for kind in OPTIONAL_CONDITIONS {
        cx.retract(kind);
    }
    for condition in &plan.conditions {
        cx.condition(condition.clone());
    }
}

fn finish_pass(
    cx: &Context<HttpProxy>,
    office: &TunnelContext,
    key: &ObjectKey,
    proxy: &HttpProxy,
    plan: Plan,
) -> Action {
    let namespace = key.namespace.as_deref();
    let names = connector_names(proxy);
    let used: BTreeSet<ObjectKey> = names
        .iter()
        .map(|name| ObjectKey::new(namespace, name))
        .collect();
    office.state.record_pass(key, used, plan.waiting);
    let ready = plan
        .conditions
        .iter()
        .find(|it| it.kind == conditions::READY);
    if let (Some(ready), Some(line)) = (ready, &plan.status.timeline) {
        let before = proxy.status.as_ref().and_then(|it| it.timeline.as_ref());
        let said = (ready.status == ConditionStatus::True, &*ready.reason);
        office.telemetry.record_pass(key, (before, line), said, cx.fence());
    }
    for note in plan.notes {
        cx.event(note);
    }
    match plan.rejected {
        Some((reason, message)) => Action::rejected(reason, message),
        None => Action::Recheck(plan.requeue_after),
    }
}

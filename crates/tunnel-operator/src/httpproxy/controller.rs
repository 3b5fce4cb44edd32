//! Wiring of the HTTPProxy controller: which kinds are watched, through which predicates, and which tunnels
//! they trigger. Each reconcile repeats observe, decide and act, one step at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::{Action, Cache, Context, Controller, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{
    ConnectorClass, GatewayReplica, HostnameClaim, HttpProxy, canonical_label, conditions, split_canonical,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::context::TunnelContext;
use crate::httpproxy::act::Act;
use crate::httpproxy::decide::decide;
use crate::httpproxy::observe::{BY_CLAIMANT, BY_LABEL, BY_LISTENER, BY_ROUTE, Observer, connector_names};
use crate::httpproxy::{Plan, Progress, unowned_gateways};
use crate::state::{BY_CONNECTOR, BY_HOSTNAME, keys};
use crate::views::ConnectorView;

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-tunnel";

/// Number of tunnels reconciled concurrently. A pass mostly waits for servers.
const WORKERS: usize = 64;
/// Timeout of a pass: a few writes and two rounds of proofs.
const PASS_TIMEOUT: Duration = Duration::from_secs(30);
/// More steps than any spec can require. A pass that reaches this limit competes with another writer and starts over.
const MAX_STEPS: usize = 64;
/// The condition types of this controller that a plan may omit.
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

pub(crate) fn controller(office: &TunnelContext) -> Controller<HttpProxy> {
    let (run, farewell) = (office.clone(), office.clone());
    let controller = Controller::new(NAME, move |proxy, cx| {
        let office = run.clone();
        async move {
            let ended = reconcile(&proxy, &cx, &office).await;
            let key = View::meta(&*proxy).key();
            if cx.cache::<HttpProxy>()?.get(&key).is_none() {
                // Deleted during the pass, which recreated some of its state.
                office.on_tunnel_deleted(&key);
            }
            ended
        }
    });
    let controller = watch_inputs(add_indexes(controller), office);
    controller
        .owns::<Gateway>(Predicate::spec_or_metadata_changed())
        .owns::<HttpRoute>(Predicate::spec_or_metadata_changed())
        .owns::<EndpointSlice>(Predicate::always())
        .triggered_by(&office.proxy_trigger, "proof")
        .on_deleted(move |key| farewell.on_tunnel_deleted(key))
        .workers(WORKERS)
        .deadline(PASS_TIMEOUT)
}

fn add_indexes(controller: Controller<HttpProxy>) -> Controller<HttpProxy> {
    controller
        .index::<HttpProxy>(Scope::default(), BY_CONNECTOR, |proxy| {
            let namespace = proxy.metadata.namespace.as_deref().unwrap_or_default();
            let names = connector_names(proxy);
            names.iter().map(|name| format!("{namespace}/{name}")).collect()
        })
        .index::<HttpProxy>(Scope::default(), BY_HOSTNAME, |proxy| proxy.spec.hostnames.clone())
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
            Predicate::changed_by(ConnectorView::tunnel_inputs),
            move |connector, all| {
                heard.record_connector(connector);
                keys(&all.by_index(BY_CONNECTOR, &connector.meta().key().to_string()))
            },
        )
        .watches::<ConnectorClass>(
            Scope::default(),
            Predicate::changed_by(|class: &ConnectorClass| {
                (class.spec.domain.clone(), class.spec.backend_networks.clone())
            }),
            |class, all| {
                let name = class.metadata.name.as_deref();
                let mut all = all.list();
                // Reserved hostnames depend on the domains of all classes.
                let shaped = |hostname: &String| split_canonical(hostname).is_some();
                all.retain(|proxy| {
                    Some(&*proxy.spec.connector_class_name) == name || proxy.spec.hostnames.iter().any(shaped)
                });
                keys(&all)
            },
        )
        .watches::<Gateway>(Scope::default(), Predicate::generation_changed(), |gateway, all| {
            let named = unowned_gateways::listener_hostnames(gateway);
            let mut asked = with_hostnames(&named, all);
            if named.iter().any(|it| it == unowned_gateways::WILDCARD) {
                // Its routes have hostnames under the wildcard and lose them with it.
                let mut under = all.list();
                let covered = |hostname: &String| unowned_gateways::covers(gateway, hostname);
                under.retain(|proxy| proxy.spec.hostnames.iter().any(covered));
                asked.extend(keys(&under));
            }
            asked
        })
        .watches::<HttpRoute>(Scope::default(), Predicate::generation_changed(), |route, all| {
            let ours = unowned_gateways::is_owned_by_proxy(&route.metadata);
            let named = unowned_gateways::route_hostnames(route);
            with_hostnames(if ours { &[] } else { &named }, all)
        })
        .watches::<HostnameClaim>(Scope::default(), Predicate::always(), |claim, all| {
            keys(&all.by_index(BY_HOSTNAME, claim.meta().name))
        })
        .watches::<GatewayReplica>(
            Scope {
                namespace: Some(office.namespace.to_string()),
                ..Scope::default()
            },
            Predicate::unless_same(move |old: &GatewayReplica, new| {
                replicas.record(new);
                spec_without_heartbeat(old) == spec_without_heartbeat(new)
            }),
            move |replica, all| concerned.affected_by(replica, all),
        )
}

/// The spec of a gateway apart from its heartbeat.
fn spec_without_heartbeat(replica: &GatewayReplica) -> aplomb_api::tunnel::GatewayReplicaSpec {
    let mut spec = replica.spec.clone();
    spec.renew_time = None;
    spec
}

/// The HTTPProxies that name one of these hostnames.
fn with_hostnames(hostnames: &[String], all: &Cache<HttpProxy>) -> Vec<ObjectKey> {
    let asked = hostnames.iter().flat_map(|it| keys(&all.by_index(BY_HOSTNAME, it)));
    asked.collect()
}

/// Observes, decides and executes one step, until no step is left.
async fn reconcile(proxy: &Arc<HttpProxy>, cx: &Context<HttpProxy>, office: &TunnelContext) -> Result<Action> {
    if proxy.metadata.deletion_timestamp.is_some() {
        // Children are garbage collected, claims are swept, and the object has no finalizer.
        return Ok(Action::Done);
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
            cx.object_deleted();
            return Ok(Action::Done);
        }
    }
    Ok(Action::RequeueAfter(Duration::ZERO))
}

/// Queues the status and Events of the plan. They are written when the pass ends, and dropped on a conflict.
fn publish_status(cx: &Context<HttpProxy>, plan: &Plan) {
    cx.status(&plan.status);
    for kind in OPTIONAL_CONDITIONS {
        cx.remove_condition(kind);
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
    let used: BTreeSet<ObjectKey> = names.iter().map(|name| ObjectKey::new(namespace, name)).collect();
    office.state.record_pass(key, used, plan.waiting);
    let ready = plan.conditions.iter().find(|it| it.type_ == conditions::READY);
    if let (Some(ready), Some(line)) = (ready, &plan.status.timeline) {
        let before = proxy.status.as_ref().and_then(|it| it.timeline.as_ref());
        let said = (ready.status == ConditionStatus::True, &*ready.reason);
        office.telemetry.record_pass(key, (before, line), said, cx.fence());
    }
    for note in plan.notes {
        cx.publish_event(note);
    }
    match plan.rejected {
        Some((reason, message)) => Action::reject(reason, message),
        None => Action::RequeueAfter(plan.requeue_after),
    }
}

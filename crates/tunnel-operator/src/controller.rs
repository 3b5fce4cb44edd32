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
use crate::memory::{BY_CONNECTOR, BY_HOSTNAME};
use crate::observe::{BY_CLAIMANT, BY_LABEL, BY_LISTENER, BY_ROUTE, Observer, connectors};
use crate::office::TunnelContext;
use crate::plain;
use crate::views::ConnectorView;
use crate::world::{Plan, Progress};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-tunnel";

/// How many tunnels are worked on at once: a pass mostly waits for servers.
const WORKERS: usize = 64;
/// How long one pass may take: a few writes and two rounds of proofs.
const PASS: Duration = Duration::from_secs(30);
/// More steps than any spec can need: a pass that takes them is undone by somebody, and starts anew.
const STEPS: usize = 64;
/// The conditions of ours that a plan may leave out.
const OURS: [&str; 9] = [
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
                office.forget(&key);
            }
            ended
        }
    });
    let controller = inputs(indexes(controller), office);
    controller
        .owns::<Gateway>(Predicate::spec_or_metadata_changed())
        .owns::<HttpRoute>(Predicate::spec_or_metadata_changed())
        .owns::<EndpointSlice>(Predicate::always())
        .triggered_by(&office.proxies, "proof")
        .on_deleted(move |key| farewell.forget(key))
        .workers(WORKERS)
        .deadline(PASS)
}

fn indexes(controller: Controller<HttpProxy>) -> Controller<HttpProxy> {
    controller
        .index::<HttpProxy>(Scope::default(), BY_CONNECTOR, |proxy| {
            let namespace = proxy.metadata.namespace.as_deref().unwrap_or_default();
            let names = connectors(proxy);
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
        .index::<Gateway>(Scope::default(), BY_LISTENER, plain::hostnames)
        .index::<HttpRoute>(Scope::default(), BY_ROUTE, plain::named)
        .index::<HostnameClaim>(Scope::default(), BY_CLAIMANT, |claim| {
            vec![claim.spec.claimant.uid.clone()]
        })
}

fn inputs(controller: Controller<HttpProxy>, office: &TunnelContext) -> Controller<HttpProxy> {
    let (replicas, concerned) = (office.replicas.clone(), office.memory.clone());
    let heard = office.memory.clone();
    controller
        .watches::<ConnectorView>(
            Scope::default(),
            Predicate::changed_by(ConnectorView::read),
            move |connector, all| {
                heard.heard(connector);
                keys(&all.by_index(BY_CONNECTOR, &connector.meta().key().to_string()))
            },
        )
        .watches::<ConnectorClass>(
            Scope::default(),
            Predicate::changed_by(|class: &ConnectorClass| {
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
        .watches::<Gateway>(Scope::default(), Predicate::generation_changed(), |gateway, all| {
            let named = plain::hostnames(gateway);
            let mut asked = with_hostnames(&named, all);
            if named.iter().any(|it| it == plain::WILDCARD) {
                // Its routes have hostnames under the wildcard, and lose them with it.
                let mut under = all.list();
                let covered = |hostname: &String| plain::covers(gateway, hostname);
                under.retain(|proxy| proxy.spec.hostnames.iter().any(covered));
                asked.extend(keys(&under));
            }
            asked
        })
        .watches::<HttpRoute>(Scope::default(), Predicate::generation_changed(), |route, all| {
            let ours = plain::is_proxys(&route.metadata);
            let named = plain::named(route);
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
                replicas.hear(new);
                said(old) == said(new)
            }),
            move |replica, all| concerned.concerned(replica, all),
        )
}

/// What a gateway says besides being alive.
fn said(replica: &GatewayReplica) -> aplomb_api::tunnel::GatewayReplicaSpec {
    let mut spec = replica.spec.clone();
    spec.renew_time = None;
    spec
}

/// Those that ask for one of these hostnames.
fn with_hostnames(hostnames: &[String], all: &Cache<HttpProxy>) -> Vec<ObjectKey> {
    let asked = hostnames
        .iter()
        .flat_map(|it| keys(&all.by_index(BY_HOSTNAME, it)));
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
        timeline: office.memory.timeline(&key, &uid),
        ..Progress::default()
    };
    for _ in 0..STEPS {
        let world = observer.observe(&progress)?;
        let plan = decide(&world);
        progress.timeline = plan.status.timeline.clone();
        if let Some(timeline) = &progress.timeline {
            office.memory.reached(&key, &uid, timeline.clone());
        }
        say(cx, &plan);
        let Some(step) = &plan.step else {
            return Ok(ended(cx, office, &key, proxy, plan));
        };
        let act = Act {
            cx,
            office,
            key: &key,
            world: &world,
            plan: &plan,
        };
        act.take(step, &mut progress).await?;
        if progress.gone {
            cx.object_deleted();
            return Ok(Action::Done);
        }
    }
    Ok(Action::RequeueAfter(Duration::ZERO))
}

/// Lays down what the plan says. Written when the pass ends; after a conflict nothing of it is.
fn say(cx: &Context<HttpProxy>, plan: &Plan) {
    cx.status(&plan.status);
    for kind in OURS {
        cx.remove_condition(kind);
    }
    for condition in &plan.conditions {
        cx.condition(condition.clone());
    }
}

fn ended(
    cx: &Context<HttpProxy>,
    office: &TunnelContext,
    key: &ObjectKey,
    proxy: &HttpProxy,
    plan: Plan,
) -> Action {
    let namespace = key.namespace.as_deref();
    let names = connectors(proxy);
    let used: BTreeSet<ObjectKey> = names
        .iter()
        .map(|name| ObjectKey::new(namespace, name))
        .collect();
    office.memory.passed(key, used, plan.waiting);
    let ready = plan
        .conditions
        .iter()
        .find(|it| it.type_ == conditions::READY);
    if let (Some(ready), Some(line)) = (ready, &plan.status.timeline) {
        let before = proxy.status.as_ref().and_then(|it| it.timeline.as_ref());
        let said = (ready.status == ConditionStatus::True, &*ready.reason);
        office.telemetry.seen(key, (before, line), said, cx.fence());
    }
    for note in plan.notes {
        cx.publish_event(note);
    }
    match plan.rejected {
        Some((reason, message)) => Action::reject(reason, message),
        None => Action::RequeueAfter(plan.again),
    }
}

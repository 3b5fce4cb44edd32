//! Controller setup: watched kinds, their predicates and the reconcile that each change triggers. A
//! reconcile observes, decides and acts, one step at a time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, EventNote, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::StableEgress;
use aplomb_api::egress::{HealthSignal, conditions};
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use crate::act::Act;
use crate::decide::decide;
use crate::observe::{Observer, interest};
use crate::office::EgressContext;
use crate::vantage;
use crate::views::{CiliumNodeView, NodeView, PodView, TokenSecretView};
use crate::world::{Plan, Step};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-egress";

/// Deadline of one reconcile. Each call and write of a move has its own deadline below it.
const PASS: Duration = Duration::from_secs(90);
/// With less time left than a step may need, the next reconcile continues.
const STEP: Duration = Duration::from_secs(15);
/// Pause after a write that was accepted but changed nothing.
const IN_VAIN: Duration = Duration::from_secs(5);
/// How long a decision waits for the first list of pods.
const PODS: Duration = Duration::from_secs(30);
/// Conditions of this controller that a plan may omit.
const OURS: [&str; 6] = [
    conditions::AVAILABLE,
    conditions::PROVIDER_REACHABLE,
    conditions::REDUNDANT,
    conditions::LABELS_CONSISTENT,
    conditions::HELD,
    conditions::FENCED,
];

/// The controller of StableEgress.
pub(crate) fn controller(office: &EgressContext) -> Controller<StableEgress> {
    let farewell = office.clone();
    let run = office.clone();
    let controller = Controller::new(NAME, move |egress, cx| {
        let office = run.clone();
        async move {
            let ended = reconcile(&egress, &cx, &office).await;
            let key = View::meta(&*egress).key();
            if cx.cache::<StableEgress>()?.get(&key).is_none() {
                // The object was deleted during this reconcile, which has stored state for it
                // again.
                office.forget(&key);
            }
            ended
        }
    });
    let controller = nodes(controller, office);
    let controller = prepared(controller, office);
    controller
        .watches::<TokenSecretView>(
            within(Some(&office.namespace)),
            Predicate::comparing(TokenSecretView::holds_as),
            |secret, all| referring(all, secret.meta().name),
        )
        .watches_if_possible::<Lease>(
            vantage::scope(&office.namespace),
            Predicate::fields(|lease: &Lease| lease.metadata.annotations.clone()),
            |_, all| {
                keys(all, |egress| {
                    egress.spec.health.signal == HealthSignal::Probe
                })
            },
        )
        .poked_by(&office.poke, "probe")
        .forgets(move |key| farewell.forget(key))
        .deadline(PASS)
}

/// The controller that probes nodes, on every replica.
pub(crate) fn prober(office: &EgressContext) -> Controller<StableEgress> {
    let concerned = office.interests.clone();
    let shared = vantage::PeerReporter::new(
        &office.identity,
        &office.namespace,
        office.prober.clone(),
        office.clock.clone(),
        Arc::new(targets),
    );
    vantage::controller(shared).watches::<NodeView>(
        Scope::default(),
        Predicate::fields(NodeView::addresses),
        move |node, _| concerned.concerned(node),
    )
}

/// Nodes to probe for a StableEgress.
fn targets(
    egress: &StableEgress,
    cx: &Context<StableEgress>,
) -> Result<Vec<(String, Vec<IpAddr>)>> {
    let name = egress.metadata.name.as_deref().unwrap_or_default();
    let active = egress
        .status
        .as_ref()
        .and_then(|status| status.active_node.clone());
    let interest = interest(name, &egress.spec, active, None);
    let nodes = cx.cache::<NodeView>()?.list();
    let concerned = nodes.iter().filter(|node| interest.concerns(node));
    let alive = concerned.filter(|node| !node.meta().deleting);
    Ok(alive
        .map(|node| (node.name().to_owned(), node.addresses()))
        .collect())
}

fn nodes(controller: Controller<StableEgress>, office: &EgressContext) -> Controller<StableEgress> {
    let (noise, concerned) = (office.interests.clone(), office.interests.clone());
    controller
        .watches::<NodeView>(
            Scope::default(),
            Predicate::comparing(move |old, new| noise.noise(old, new)),
            move |node, _| concerned.concerned(node),
        )
        .watches_if_possible::<CiliumNodeView>(
            Scope::default(),
            Predicate::fields(|node: &CiliumNodeView| node.metadata.labels.clone()),
            |node, all| carrying(all, node),
        )
}

fn prepared(
    controller: Controller<StableEgress>,
    office: &EgressContext,
) -> Controller<StableEgress> {
    let own = office.namespace.clone();
    controller.watches_if_possible::<PodView>(
        within(office.pods.as_deref()),
        Predicate::fields(|pod: &PodView| {
            (
                pod.metadata.labels.clone(),
                pod.ready_on().map(str::to_owned),
            )
        }),
        move |pod, all| prepared_by(all, pod, &own),
    )
}

fn within(namespace: Option<&str>) -> Scope {
    Scope {
        namespace: namespace.map(str::to_owned),
        ..Scope::default()
    }
}

fn keys(
    all: &aplomb::Cache<StableEgress>,
    wanted: impl Fn(&StableEgress) -> bool,
) -> Vec<ObjectKey> {
    let all = all.list();
    let wanted = all.iter().filter(|egress| wanted(egress));
    wanted.map(|egress| View::meta(&**egress).key()).collect()
}

/// StableEgress objects that read their token from `secret`.
fn referring(all: &aplomb::Cache<StableEgress>, secret: &str) -> Vec<ObjectKey> {
    keys(all, |egress| {
        let wanted = egress.spec.token_secret_ref.as_ref();
        wanted.is_some_and(|wanted| wanted.name == secret)
    })
}

/// StableEgress objects whose gateway labels the CiliumNode has, or whose gateway has its name.
fn carrying(all: &aplomb::Cache<StableEgress>, node: &CiliumNodeView) -> Vec<ObjectKey> {
    let has = &node.metadata.labels;
    keys(all, |egress| {
        let name = egress.metadata.name.as_deref().unwrap_or_default();
        let labels = crate::world::gateway_labels(name, &egress.spec);
        let status = egress.status.as_ref();
        let active = status.and_then(|status| status.active_node.as_deref());
        active == Some(node.meta().name) || labels.keys().any(|key| has.contains_key(key))
    })
}

/// StableEgress objects for which a pod prepares its node.
fn prepared_by(all: &aplomb::Cache<StableEgress>, pod: &PodView, own: &str) -> Vec<ObjectKey> {
    keys(all, |egress| {
        let Some(wanted) = &egress.spec.prepared else {
            return false;
        };
        let namespace = wanted.namespace.as_deref().unwrap_or(own);
        pod.meta().namespace == Some(namespace)
            && crate::selector::selects(&wanted.selector, &pod.metadata.labels)
    })
}

/// Observes, decides and takes one step, until there is none to take.
async fn reconcile(
    egress: &Arc<StableEgress>,
    cx: &Context<StableEgress>,
    office: &EgressContext,
) -> Result<Action> {
    let key = View::meta(&**egress).key();
    let pods = cx.cache::<PodView>()?.freshness().synced;
    if egress.spec.prepared.is_some() && !pods && office.uptime() < PODS {
        // Without pods, no node would count as prepared.
        return Ok(Action::Recheck(Duration::from_secs(1)));
    }
    let account = office.account(egress, cx.cache::<TokenSecretView>()?);
    let observer = Observer {
        egress,
        cx,
        office,
        key: &key,
        account: account.as_ref().ok(),
    };
    let (mut told, mut last) = (Vec::new(), None);
    loop {
        let world = observer.observe()?;
        let plan = decide(&world);
        say(cx, &plan, &mut told);
        office.took(&key, &world, &plan, cx.fence());
        let Some(step) = &plan.step else {
            return Ok(Action::Recheck(plan.again));
        };
        if Instant::now() + STEP > cx.deadline() {
            return Ok(Action::Recheck(Duration::ZERO));
        }
        if is_write(step) && last.as_ref() == Some(step) {
            // Accepted without effect: another writer reverts it or a webhook drops it.
            return Ok(Action::Recheck(IN_VAIN));
        }
        let act = Act {
            cx,
            office,
            key: &key,
            world: &world,
            account: account.as_ref().map_err(Clone::clone),
        };
        act.take(step).await?;
        last = Some(step.clone());
    }
}

/// Whether the result of a step must be visible before the next one.
fn is_write(step: &Step) -> bool {
    matches!(step, Step::Strip { .. } | Step::Label { .. } | Step::Claim)
}

/// Queues the status, conditions and Events of a plan. They are written at the end of the
/// reconcile, whether or not the step succeeds.
fn say(cx: &Context<StableEgress>, plan: &Plan, told: &mut Vec<EventNote>) {
    let mut status = plan.status.clone();
    // The runtime writes the conditions.
    status.conditions.clear();
    cx.status(&status);
    for kind in OURS {
        cx.retract(kind);
    }
    for condition in &plan.conditions {
        cx.condition(condition.clone());
    }
    for note in &plan.notes {
        if !told.contains(note) {
            told.push(note.clone());
            cx.event(note.clone());
        }
    }
}

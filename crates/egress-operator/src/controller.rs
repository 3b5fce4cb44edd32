//! The wiring: which kinds are watched, through which lens, and what runs when one changes. And the
//! round of observing, deciding and acting, one step at a time.

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

/// How long one pass may take: a move's calls and writes, each under its own deadline.
const PASS: Duration = Duration::from_secs(90);
/// With less time left than a step may need, the next pass goes on.
const STEP: Duration = Duration::from_secs(15);
/// How long a write that changed nothing is left alone.
const IN_VAIN: Duration = Duration::from_secs(5);
/// How long the first look at pods may take before a decision is made without it.
const PODS: Duration = Duration::from_secs(30);
/// The conditions of ours that a plan may leave out.
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
                // Deleted during the pass, which has brought some of it back.
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
            Predicate::unless_same(TokenSecretView::holds_as),
            |secret, all| referring(all, secret.meta().name),
        )
        .watches_optional::<Lease>(
            vantage::scope(&office.namespace),
            Predicate::changed_by(|lease: &Lease| lease.metadata.annotations.clone()),
            |_, all| {
                keys(all, |egress| {
                    egress.spec.health.signal == HealthSignal::Probe
                })
            },
        )
        .triggered_by(&office.poke, "probe")
        .on_deleted(move |key| farewell.forget(key))
        .deadline(PASS)
}

/// The controller that probes, on every replica.
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
        Predicate::changed_by(NodeView::addresses),
        move |node, _| concerned.concerned(node),
    )
}

/// Who is probed for a StableEgress.
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
            Predicate::unless_same(move |old, new| noise.noise(old, new)),
            move |node, _| concerned.concerned(node),
        )
        .watches_optional::<CiliumNodeView>(
            Scope::default(),
            Predicate::changed_by(|node: &CiliumNodeView| node.metadata.labels.clone()),
            |node, all| carrying(all, node),
        )
}

fn prepared(
    controller: Controller<StableEgress>,
    office: &EgressContext,
) -> Controller<StableEgress> {
    let own = office.namespace.clone();
    controller.watches_optional::<PodView>(
        within(office.pods.as_deref()),
        Predicate::changed_by(|pod: &PodView| {
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

/// Those whose token is in a Secret.
fn referring(all: &aplomb::Cache<StableEgress>, secret: &str) -> Vec<ObjectKey> {
    keys(all, |egress| {
        let wanted = egress.spec.token_secret_ref.as_ref();
        wanted.is_some_and(|wanted| wanted.name == secret)
    })
}

/// Those whose gateway labels a CiliumNode has, or that have a gateway of its name.
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

/// Those for which a pod prepares its node.
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
        // Nobody would look prepared.
        return Ok(Action::RequeueAfter(Duration::from_secs(1)));
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
            return Ok(Action::RequeueAfter(plan.again));
        };
        if Instant::now() + STEP > cx.deadline() {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        if is_write(step) && last.as_ref() == Some(step) {
            // It was accepted and changed nothing: somebody undoes or drops what we write.
            return Ok(Action::RequeueAfter(IN_VAIN));
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

/// Whether a step should be seen to have been taken at once.
fn is_write(step: &Step) -> bool {
    matches!(step, Step::Strip { .. } | Step::Label { .. } | Step::Claim)
}

/// Lays down what the plan says. Written when the pass ends, whatever becomes of the step.
fn say(cx: &Context<StableEgress>, plan: &Plan, told: &mut Vec<EventNote>) {
    let mut status = plan.status.clone();
    // Those are the runtime's to write.
    status.conditions.clear();
    cx.status(&status);
    for kind in OURS {
        cx.remove_condition(kind);
    }
    for condition in &plan.conditions {
        cx.condition(condition.clone());
    }
    for note in &plan.notes {
        if !told.contains(note) {
            told.push(note.clone());
            cx.publish_event(note.clone());
        }
    }
}

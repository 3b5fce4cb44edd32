//! Controller setup: watched kinds, their predicates and the reconcile that each change triggers. A reconcile observes,
//! decides and acts, one step at a time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, EventNote, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::StableEgress;
use aplomb_api::egress::{HealthSignal, conditions};
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use crate::act::Act;
use crate::context::EgressContext;
use crate::decide::{Plan, Step, decide};
use crate::observe::{Observer, node_filter};
use crate::peer_reports;
use crate::views::{CiliumNodeView, NodeView, PodView, TokenSecretView};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-egress";

/// Deadline of one reconcile. Each call and write of a move has its own deadline below it.
const PASS_TIMEOUT: Duration = Duration::from_secs(90);
/// With less time left than a step may need, the next reconcile continues.
const MIN_STEP_TIME: Duration = Duration::from_secs(15);
/// Pause after a write that was accepted but changed nothing.
const NOOP_RETRY: Duration = Duration::from_secs(5);
/// How long a decision waits for the first list of pods.
const POD_SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// Conditions of this controller that a plan may omit.
const OWN_CONDITIONS: [&str; 6] = [
    conditions::AVAILABLE,
    conditions::PROVIDER_REACHABLE,
    conditions::REDUNDANT,
    conditions::LABELS_CONSISTENT,
    conditions::HELD,
    conditions::FENCED,
];

pub(crate) fn controller(context: &EgressContext) -> Controller<StableEgress> {
    let farewell = context.clone();
    let run = context.clone();
    let controller = Controller::new(NAME, move |egress, cx| {
        let context = run.clone();
        async move {
            let ended = reconcile(&egress, &cx, &context).await;
            let key = View::meta(&*egress).key();
            if cx.cache::<StableEgress>()?.get(&key).is_none() {
                // The object was deleted during this reconcile, which has stored state for it again.
                context.on_deleted(&key);
            }
            ended
        }
    });
    let controller = watch_nodes(controller, context);
    let controller = watch_prepared_pods(controller, context);
    controller
        .watches::<TokenSecretView>(
            namespace_scope(Some(&context.namespace)),
            Predicate::unless_same(TokenSecretView::same_data),
            |secret, all| keys_by_secret(all, secret.meta().name),
        )
        .watches_optional::<Lease>(
            peer_reports::lease_scope(&context.namespace),
            Predicate::changed_by(|lease: &Lease| lease.metadata.annotations.clone()),
            |_, all| matching_keys(all, |egress| egress.spec.health.signal == HealthSignal::Probe),
        )
        .triggered_by(&context.trigger, "probe")
        .on_deleted(move |key| farewell.on_deleted(key))
        .deadline(PASS_TIMEOUT)
}

/// The controller that probes nodes, on every replica.
pub(crate) fn probe_controller(context: &EgressContext) -> Controller<StableEgress> {
    let concerned = context.filters.clone();
    let shared = peer_reports::PeerReporter::new(
        &context.identity,
        &context.namespace,
        context.prober.clone(),
        context.clock.clone(),
        Arc::new(probe_targets),
    );
    peer_reports::controller(shared).watches::<NodeView>(
        Scope::default(),
        Predicate::changed_by(NodeView::addresses),
        move |node, _| concerned.affected_keys(node),
    )
}

fn probe_targets(egress: &StableEgress, cx: &Context<StableEgress>) -> Result<Vec<(String, Vec<IpAddr>)>> {
    let name = egress.metadata.name.as_deref().unwrap_or_default();
    let active = egress.status.as_ref().and_then(|status| status.active_node.clone());
    let interest = node_filter(name, &egress.spec, active, None);
    let nodes = cx.cache::<NodeView>()?.list();
    let concerned = nodes.iter().filter(|node| interest.matches_node(node));
    let alive = concerned.filter(|node| !node.meta().deleting);
    Ok(alive.map(|node| (node.name().to_owned(), node.addresses())).collect())
}

fn watch_nodes(controller: Controller<StableEgress>, context: &EgressContext) -> Controller<StableEgress> {
    let (noise, concerned) = (context.filters.clone(), context.filters.clone());
    controller
        .watches::<NodeView>(
            Scope::default(),
            Predicate::unless_same(move |old, new| noise.is_irrelevant(old, new)),
            move |node, _| concerned.affected_keys(node),
        )
        .watches_optional::<CiliumNodeView>(
            Scope::default(),
            Predicate::changed_by(|node: &CiliumNodeView| node.metadata.labels.clone()),
            |node, all| keys_by_cilium_node(all, node),
        )
}

fn watch_prepared_pods(controller: Controller<StableEgress>, context: &EgressContext) -> Controller<StableEgress> {
    let own = context.namespace.clone();
    controller.watches_optional::<PodView>(
        namespace_scope(context.pods.as_deref()),
        Predicate::changed_by(|pod: &PodView| (pod.metadata.labels.clone(), pod.ready_on().map(str::to_owned))),
        move |pod, all| keys_by_pod(all, pod, &own),
    )
}

fn namespace_scope(namespace: Option<&str>) -> Scope {
    Scope {
        namespace: namespace.map(str::to_owned),
        ..Scope::default()
    }
}

fn matching_keys(all: &aplomb::Cache<StableEgress>, wanted: impl Fn(&StableEgress) -> bool) -> Vec<ObjectKey> {
    let all = all.list();
    let wanted = all.iter().filter(|egress| wanted(egress));
    wanted.map(|egress| View::meta(&**egress).key()).collect()
}

/// StableEgress objects that read their token from `secret`.
fn keys_by_secret(all: &aplomb::Cache<StableEgress>, secret: &str) -> Vec<ObjectKey> {
    matching_keys(all, |egress| {
        let wanted = egress.spec.token_secret_ref.as_ref();
        wanted.is_some_and(|wanted| wanted.name == secret)
    })
}

/// StableEgress objects whose gateway labels the CiliumNode has, or whose gateway has its name.
fn keys_by_cilium_node(all: &aplomb::Cache<StableEgress>, node: &CiliumNodeView) -> Vec<ObjectKey> {
    let has = &node.metadata.labels;
    matching_keys(all, |egress| {
        let name = egress.metadata.name.as_deref().unwrap_or_default();
        let labels = crate::egress::gateway_labels(name, &egress.spec);
        let status = egress.status.as_ref();
        let active = status.and_then(|status| status.active_node.as_deref());
        active == Some(node.meta().name) || labels.keys().any(|key| has.contains_key(key))
    })
}

/// StableEgress objects for which a pod prepares its node.
fn keys_by_pod(all: &aplomb::Cache<StableEgress>, pod: &PodView, own: &str) -> Vec<ObjectKey> {
    matching_keys(all, |egress| {
        let Some(wanted) = &egress.spec.prepared else {
            return false;
        };
        let namespace = wanted.namespace.as_deref().unwrap_or(own);
        pod.meta().namespace == Some(namespace) && crate::node_filter::matches(&wanted.selector, &pod.metadata.labels)
    })
}

/// Observes, decides and takes one step, until there is none to take.
async fn reconcile(egress: &Arc<StableEgress>, cx: &Context<StableEgress>, context: &EgressContext) -> Result<Action> {
    let key = View::meta(&**egress).key();
    let pods = cx.cache::<PodView>()?.freshness().synced;
    if egress.spec.prepared.is_some() && !pods && context.uptime() < POD_SYNC_TIMEOUT {
        // Without pods, no node would count as prepared.
        return Ok(Action::RequeueAfter(Duration::from_secs(1)));
    }
    let account = context.account(egress, cx.cache::<TokenSecretView>()?);
    let observer = Observer {
        egress,
        cx,
        context,
        key: &key,
        account: account.as_ref().ok(),
    };
    let (mut told, mut last) = (Vec::new(), None);
    loop {
        let world = observer.observe()?;
        let plan = decide(&world);
        record_plan(cx, &plan, &mut told);
        context.record_decision(&key, &world, &plan, cx.fence());
        let Some(step) = &plan.step else {
            return Ok(Action::RequeueAfter(plan.requeue_after));
        };
        if Instant::now() + MIN_STEP_TIME > cx.deadline() {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        if is_write(step) && last.as_ref() == Some(step) {
            // Accepted without effect: another writer reverts it or a webhook drops it.
            return Ok(Action::RequeueAfter(NOOP_RETRY));
        }
        let act = Act {
            cx,
            context,
            key: &key,
            observed: &world,
            account: account.as_ref().map_err(Clone::clone),
        };
        act.execute(step).await?;
        last = Some(step.clone());
    }
}

/// Whether the result of a step must be visible before the next one.
fn is_write(step: &Step) -> bool {
    matches!(step, Step::Strip { .. } | Step::Label { .. } | Step::WriteTerm)
}

/// Queues the status, conditions and Events of a plan. They are written at the end of the reconcile, whether or not the
/// step succeeds.
fn record_plan(cx: &Context<StableEgress>, plan: &Plan, told: &mut Vec<EventNote>) {
    let mut status = plan.status.clone();
    // The runtime writes the conditions.
    status.conditions.clear();
    cx.status(&status);
    for kind in OWN_CONDITIONS {
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

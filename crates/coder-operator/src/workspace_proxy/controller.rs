//! The controller: which kinds are watched, which changes matter, and which objects run when one changes. And
//! the round of observing, deciding and acting, one step at a time.

use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::leadership::fence::Fence;
use aplomb::{Action, Context, Controller, ObjectKey, ObjectRef, Predicate, Result, Scope, View};
use aplomb_api::coder::conditions::READY;
use aplomb_api::coder::{CoderWorkspaceProxy, FINALIZER};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use tokio::time::Instant;

use super::act::Act;
use super::decide::{decide, secret_ref};
use super::observe::{Observer, bindings};
use super::{Observed, Plan, Progress};
use crate::blocked::PERMANENT_RETRY;
use crate::context::CoderContext;
use crate::telemetry::{CoderMetrics, KeyOrphaned, KeyRotated, ObjectDecided};
use crate::views::ControlPlaneView;
use crate::watches::{INDEX_NAMES, objects_naming, opaque_secrets, record_plan, same_data, same_rollout};

/// Also the field manager.
const NAME: &str = "aplomb-coder-proxy";
const KIND: &str = "CoderWorkspaceProxy";
/// How many objects are worked on at once: a pass mostly waits for servers.
const WORKERS: usize = 16;
/// How long one pass may take: a few calls and writes, each under its own deadline.
const PASS_TIMEOUT: Duration = Duration::from_secs(90);
/// More steps than any status can need: a reconcile that takes them is undone by another writer,
/// and starts from the beginning.
const MAX_STEPS: usize = 64;

/// The controller of CoderWorkspaceProxy.
pub(crate) fn controller(office: &CoderContext) -> Controller<CoderWorkspaceProxy> {
    let (run, farewell) = (office.clone(), office.clone());
    let namespace = office.namespace.as_deref();
    let scope = Scope {
        namespace: namespace.map(str::to_owned),
        ..Scope::default()
    };
    Controller::new(NAME, move |object, cx| {
        let office = run.clone();
        async move { reconcile(&object, &cx, &office).await }
    })
    .finalizer(FINALIZER)
    .in_scope(scope.clone())
    .index::<CoderWorkspaceProxy>(scope.clone(), INDEX_NAMES, referenced_names)
    .owns_in::<Secret>(opaque_secrets(None), Predicate::unless_same(same_data))
    .owns::<Service>(Predicate::spec_or_metadata_changed())
    .owns::<Deployment>(Predicate::unless_same(same_rollout))
    .watches::<Secret>(
        opaque_secrets(namespace),
        Predicate::unless_same(same_data),
        |secret, all| objects_naming(all, "secret", &View::meta(secret).key(), uses_control_plane),
    )
    .watches_optional::<ControlPlaneView>(
        scope,
        Predicate::changed_by(ControlPlaneView::decision_fields),
        |plane, all| objects_naming(all, "plane", &plane.meta().key(), uses_control_plane),
    )
    .triggered_by(&office.proxies, "turn")
    .on_deleted(move |key| farewell.on_deleted(&object_ref(key)))
    .workers(WORKERS)
    .deadline(PASS_TIMEOUT)
    .resync(PERMANENT_RETRY)
}

fn object_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: KIND.into(),
        key: key.clone(),
    }
}

/// Every Secret and control plane that an object or its records name.
fn referenced_names(object: &CoderWorkspaceProxy) -> Vec<String> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let bootstrap = object.spec.bootstrap.as_ref();
    let records = object.status.iter().flat_map(bindings);
    let bound = records.map(|it| it.token_secret_ref.name.clone());
    let server = bootstrap.and_then(|it| it.server.as_ref());
    let own = server.map(|it| it.token_secret_ref.name.clone());
    let secrets = bound.chain(own).chain([secret_ref(object).name]);
    let plane = bootstrap.and_then(|it| it.control_plane_ref.as_ref());
    let plane = plane.map(|it| format!("plane {namespace}/{}", it.name));
    secrets
        .map(|it| format!("secret {namespace}/{it}"))
        .chain(plane)
        .collect()
}

/// Whether a control plane says where the server and its token are.
fn uses_control_plane(object: &CoderWorkspaceProxy) -> bool {
    let bootstrap = object.spec.bootstrap.as_ref();
    bootstrap.is_some_and(|it| it.control_plane_ref.is_some())
}

/// Observes, decides and takes one step, until there is none to take.
async fn reconcile(
    object: &Arc<CoderWorkspaceProxy>,
    cx: &Context<CoderWorkspaceProxy>,
    office: &CoderContext,
) -> Result<Action> {
    let who = object_ref(&View::meta(&**object).key());
    let observer = Observer {
        object,
        cx,
        context: office,
        object_ref: &who,
        pass_started: Instant::now(),
    };
    let (mut seen, mut told) = (Progress::default(), Vec::new());
    for _ in 0..MAX_STEPS {
        let world = observer.observe(&seen)?;
        let plan = decide(&world);
        record_plan(cx, &plan.status, &plan.conditions, &plan.notes, &mut told);
        let Some(step) = &plan.step else {
            let before = world.status.pending.as_ref().map(|it| &it.name);
            let after = plan.status.pending.as_ref().map(|it| &it.name);
            if after.is_some() && after != before {
                office
                    .states
                    .set_unrequested_name(&who, after.cloned(), cx.leader_term());
            }
            let secret = plan.needs_secret.then(|| world.token_secret()).flatten();
            office.request_secret(&who, secret);
            report_decision(&office.telemetry, &who, &world, &plan, cx.fence());
            let access = world.access.as_ref().and_then(|it| it.as_ref().ok());
            let told = access
                .filter(|_| wants_bypass(object))
                .and_then(|it| office.bypass_note(&who, it));
            told.into_iter().for_each(|it| cx.publish_event(it));
            return plan.end.action();
        };
        let act = Act {
            cx,
            context: office,
            object_ref: &who,
            observed: &world,
        };
        act.execute(step, &mut seen).await?;
        if seen.released {
            report_decision(&office.telemetry, &who, &world, &plan, cx.fence());
            return Ok(Action::Done);
        }
    }
    Ok(Action::RequeueAfter(Duration::ZERO))
}

fn wants_bypass(object: &CoderWorkspaceProxy) -> bool {
    object.spec.bootstrap.as_ref().is_some_and(|it| it.bypass_rate_limit)
}

pub(crate) fn report_decision(coder: &CoderMetrics, who: &ObjectRef, world: &Observed, plan: &Plan, fence: &Fence) {
    coder.set_fence(fence);
    let ready = plan.conditions.iter().find(|it| it.type_ == READY);
    let deleting = world.object.metadata.deletion_timestamp.as_ref();
    let retiring = plan.status.retiring.iter();
    let access = world.access.as_ref().and_then(|it| it.as_ref().ok());
    coder.emit(ObjectDecided {
        object: who,
        server: access.map(|it| &*it.url),
        ready: ready.is_some_and(|it| it.status == ConditionStatus::True),
        reason: ready.map_or("Progressing", |it| &it.reason),
        throttled: plan.status.rate_limited.is_some(),
        daemons: None,
        rotating: retiring.map(|it| it.retired.0).min(),
        deleting: deleting.map(|it| it.0),
    });
    for (server, name) in &plan.orphans {
        coder.emit(KeyOrphaned {
            object: who,
            server,
            name,
        });
    }
    let (was, is) = (&world.status, &plan.status);
    if was.proxy_id.is_some() && world.progress.token_stored.is_some() {
        let reason = is.rotation.reason.as_deref().unwrap_or("First");
        coder.emit(KeyRotated { object: who, reason });
    }
}

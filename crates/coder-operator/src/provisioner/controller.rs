//! The controller: which kinds are watched, which changes matter, and which objects run when one changes. And
//! the round of observing, deciding and acting, one step at a time.

use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::leadership::fence::Fence;
use aplomb::{Action, Context, Controller, ObjectKey, ObjectRef, Predicate, Result, Scope, View};
use aplomb_api::coder::conditions::READY;
use aplomb_api::coder::{CoderProvisioner, FINALIZER};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use tokio::time::Instant;

use super::act::Act;
use super::decide::decide;
use super::observe::{INDEX_CLAIMS, Observer, claims, key_records};
use super::{Observed, Plan, Progress};
use crate::blocked::PERMANENT_RETRY;
use crate::conditions::elapsed;
use crate::context::CoderContext;
use crate::telemetry::{CoderMetrics, KeyOrphaned, KeyRotated, ObjectDecided, RotationStage, RotationStageEnded};
use crate::views::ControlPlaneView;
use crate::watches::{INDEX_NAMES, objects_naming, opaque_secrets, record_plan, same_data, same_rollout};

/// Also the field manager.
pub(crate) const NAME: &str = "aplomb-coder";
const KIND: &str = "CoderProvisioner";
/// How many objects are worked on at once: a pass mostly waits for servers.
const WORKERS: usize = 32;
/// How long one pass may take: a few calls and writes, each under its own deadline.
const PASS_TIMEOUT: Duration = Duration::from_secs(90);
/// More steps than any status can need: a reconcile that takes them is undone by another writer,
/// and starts from the beginning.
const MAX_STEPS: usize = 64;

/// The controller of CoderProvisioner.
pub(crate) fn controller(office: &CoderContext) -> Controller<CoderProvisioner> {
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
    .index::<CoderProvisioner>(scope.clone(), INDEX_NAMES, referenced_names)
    .index::<CoderProvisioner>(scope.clone(), INDEX_CLAIMS, claims)
    .owns_in::<Secret>(opaque_secrets(None), Predicate::unless_same(same_data))
    .owns::<ServiceAccount>(Predicate::spec_or_metadata_changed())
    .owns::<Role>(Predicate::always())
    .owns::<RoleBinding>(Predicate::always())
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
    .triggered_by(&office.provisioners, "turn")
    .on_deleted(move |key| farewell.on_deleted(&object_ref(key)))
    .workers(WORKERS)
    .deadline(PASS_TIMEOUT)
    .resync(PERMANENT_RETRY)
}

pub(crate) fn object_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: KIND.into(),
        key: key.clone(),
    }
}

/// Every Secret and control plane that an object or its records name.
fn referenced_names(object: &CoderProvisioner) -> Vec<String> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &object.spec;
    let records = object.status.iter().flat_map(key_records);
    let bound = records.map(|it| it.binding.token_secret_ref.name.clone());
    let own = spec.server.iter().map(|it| it.token_secret_ref.name.clone());
    let secrets = bound.chain(own).chain([super::decide::secret_ref(object).name]);
    let planes = spec
        .control_plane_ref
        .iter()
        .map(|it| format!("plane {namespace}/{}", it.name));
    secrets
        .map(|it| format!("secret {namespace}/{it}"))
        .chain(planes)
        .collect()
}

/// Whether a control plane says where the server and its token are.
fn uses_control_plane(object: &CoderProvisioner) -> bool {
    object.spec.control_plane_ref.is_some()
}

/// Observes, decides and takes one step, until there is none to take.
async fn reconcile(
    object: &Arc<CoderProvisioner>,
    cx: &Context<CoderProvisioner>,
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
            let access = world.access.as_ref().ok();
            let told = access
                .filter(|_| world.object.spec.bypass_rate_limit)
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

pub(crate) fn report_decision(coder: &CoderMetrics, who: &ObjectRef, world: &Observed, plan: &Plan, fence: &Fence) {
    coder.set_fence(fence);
    let ready = plan.conditions.iter().find(|it| it.type_ == READY);
    let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
    let deleting = world.object.metadata.deletion_timestamp.as_ref();
    let retiring = plan.status.retiring.iter();
    coder.emit(ObjectDecided {
        object: who,
        server: plan.status.control_plane_url.as_deref(),
        ready: ready.is_some_and(|it| it.status == ConditionStatus::True),
        reason: ready.map_or("Progressing", |it| &it.reason),
        throttled: plan.status.rate_limited.is_some(),
        daemons: plan.connected.map(|connected| (connected, wanted)),
        rotating: retiring.map(|it| it.retired.0).min(),
        deleting: deleting.map(|it| it.0),
    });
    for key in &plan.orphans {
        coder.emit(KeyOrphaned {
            object: who,
            server: &key.binding.server_url,
            name: &key.name,
        });
    }
    report_stages(coder, who, world, plan);
}

/// How far a rotation came in this pass.
fn report_stages(coder: &CoderMetrics, who: &ObjectRef, world: &Observed, plan: &Plan) {
    let (was, is) = (&world.status, &plan.status);
    let name = |key: &Option<aplomb_api::coder::KeyRecord>| key.as_ref().map(|it| it.name.clone());
    if let Some(pending) = &was.pending
        && name(&is.key).as_ref() == Some(&pending.name)
    {
        let took = elapsed(&pending.since, world.now);
        coder.emit(RotationStageEnded {
            object: who,
            stage: RotationStage::Create,
            duration: took,
        });
        if was.key.is_some() {
            let reason = is.rotation.reason.as_deref().unwrap_or("First");
            coder.emit(KeyRotated { object: who, reason });
        }
    }
    let used = |it: &&aplomb_api::coder::RetiringKey| it.used;
    let oldest = was
        .retiring
        .iter()
        .filter(used)
        .map(|it| &it.retired)
        .min_by_key(|it| it.0);
    if let Some(oldest) = oldest.filter(|_| is.retiring.is_empty()) {
        let took = elapsed(oldest, world.now);
        coder.emit(RotationStageEnded {
            object: who,
            stage: RotationStage::Rollout,
            duration: took,
        });
    }
}

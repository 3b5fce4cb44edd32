//! The wiring: which kinds are watched, through which lens, and which objects run when one changes. And
//! the round of observing, deciding and acting, one step at a time.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::coder::{CoderProvisioner, FINALIZER};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use tokio::time::Instant;

use super::act::Act;
use super::decide::decide;
use super::observe::{INDEX_CLAIMS, Observer, claims, key_records};
use super::report;
use super::world::Progress;
use crate::context::CoderContext;
use crate::ending::PERMANENT_RETRY;
use crate::object::Object;
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

pub(crate) fn object_ref(key: &ObjectKey) -> Object {
    Object {
        kind: KIND,
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
            report::report_decision(&office.telemetry, &who, &world, &plan, cx.fence());
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
            report::report_decision(&office.telemetry, &who, &world, &plan, cx.fence());
            return Ok(Action::Done);
        }
    }
    Ok(Action::RequeueAfter(Duration::ZERO))
}

//! What a pass tells those who count: the object as it is now, and what has become of its keys. Nothing
//! here decides or is read by a decision.

use aplomb::conditions::ConditionStatus;
use aplomb::leadership::fence::Fence;
use aplomb_api::coder::conditions::READY;

use super::world::{Observed, Plan};
use crate::object::Object;
use crate::telemetry::{CoderMetrics, KeyOrphaned, KeyRotated, ObjectDecided, RotationStage, RotationStageEnded};
use crate::times::elapsed;

/// Reports a finished reconcile.
pub(crate) fn report_decision(coder: &CoderMetrics, who: &Object, world: &Observed, plan: &Plan, fence: &Fence) {
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
fn report_stages(coder: &CoderMetrics, who: &Object, world: &Observed, plan: &Plan) {
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

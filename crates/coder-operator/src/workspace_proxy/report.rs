//! What a pass tells those who count: the object as it is now, and what has become of its registrations.
//! Nothing here decides or is read by a decision.

use aplomb::conditions::ConditionStatus;
use aplomb::leadership::fence::Fence;
use aplomb_api::coder::conditions::READY;

use super::world::{Observed, Plan};
use crate::object::Object;
use crate::telemetry::{CoderMetrics, KeyOrphaned, KeyRotated, ObjectDecided};

/// Reports a finished reconcile.
pub(crate) fn report_decision(coder: &CoderMetrics, who: &Object, world: &Observed, plan: &Plan, fence: &Fence) {
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

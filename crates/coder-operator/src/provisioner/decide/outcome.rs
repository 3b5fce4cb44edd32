//! The plan, from where a course ended: when to look again, and what is written down of a rate limit.

use std::time::Duration;

use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::coder::{conditions as kinds, reasons};

use super::conditions::build_conditions;
use super::plan_builder::{Course, Draft, Next, Stop};
use super::{PERMANENT_RETRY, secret_ref};
use crate::ending::{End, record_rate_limit};
use crate::provisioner::world::{Observed, Plan};

/// How soon a server of former days is tried again.
const FORMER_SERVER_RETRY: Duration = Duration::from_secs(60);
/// How soon a Secret is looked at again that should have been seen to be kept long since.
const SECRET_RETRY: Duration = Duration::from_secs(15);
/// How soon an organization that is missing is asked for again.
const ORGANIZATION_RETRY: Duration = Duration::from_secs(120);

/// The plan of a course that ended so.
pub(super) fn build_plan(world: &Observed, mut draft: Draft, ended: Course<()>) -> Plan {
    let mut stop: Option<Box<Stop>> = None;
    let (step, end) = match ended {
        Ok(()) => (None, End::RequeueAfter(draft.wait)),
        Err(Next::Step(step)) => (Some(*step), End::RequeueAfter(Duration::ZERO)),
        Err(Next::Persist) => (None, End::RequeueAfter(Duration::ZERO)),
        Err(Next::Stop(why)) => {
            let end = end_for_stop(world, &draft, &why);
            stop = Some(why);
            (None, end)
        }
    };
    if let Some(Stop::Blocked(hindrance)) = stop.as_deref() {
        draft.record_blocked(&hindrance.clone());
    }
    let now = (world.now, world.instant);
    let notes = &mut draft.notes;
    let hindrances = [&*draft.blocked, &*draft.former_blocked].concat();
    let record = &mut draft.status.rate_limited;
    record_rate_limit(&hindrances, world.remembered.throttled, now, record, notes);
    copy_summary(&mut draft, world);
    let mut conditions = build_conditions(world, &draft, stop.as_deref());
    let ready = conditions
        .iter()
        .any(|it| it.type_ == kinds::READY && it.status == ConditionStatus::True);
    draft.status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
    let mut end = end.min_wait(&draft.blocked, world.instant);
    if let (End::RequeueAfter(wait), false) = (&mut end, draft.former_blocked.is_empty()) {
        *wait = (*wait).min(FORMER_SERVER_RETRY);
    }
    if matches!(end, End::Rejected { .. }) {
        conditions.retain(|it| it.type_ != RECONCILING);
    }
    Plan {
        status: draft.status,
        conditions,
        notes: draft.notes,
        connected: draft.serving,
        orphans: draft.orphans,
        needs_secret: matches!(stop.as_deref(), Some(Stop::SecretNotKept)),
        step,
        end,
    }
}

/// How long until it is looked at again, from why it stopped.
fn end_for_stop(world: &Observed, draft: &Draft, stop: &Stop) -> End {
    match stop {
        Stop::Blocked(hindrance) => End::from_blocked(hindrance, world.instant, reasons::KEY_FAILED),
        Stop::Rejected { reason, message } => End::Rejected {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        Stop::NoOrganization => End::RequeueAfter(ORGANIZATION_RETRY),
        Stop::SecretNotKept => End::RequeueAfter(SECRET_RETRY),
        Stop::Deleting(_) => End::RequeueAfter(draft.wait),
        Stop::NoAccess | Stop::NotEntitled | Stop::NotSupported => End::RequeueAfter(PERMANENT_RETRY),
    }
}

/// Repeats at the top of the status what people look for.
fn copy_summary(draft: &mut Draft, world: &Observed) {
    let status = &mut draft.status;
    let key = status.key.clone();
    status.provisioner_key_name = key.as_ref().map(|it| it.name.clone());
    status.provisioner_key_id = key.as_ref().and_then(|it| it.id.clone());
    status.tags_hash = key.as_ref().map(|it| it.tags_hash.clone());
    status.secret_ref = key.map(|_| secret_ref(&world.object));
}

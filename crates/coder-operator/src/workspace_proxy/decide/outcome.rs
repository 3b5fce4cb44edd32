//! The plan that a course comes to: when it is looked at again, and what is written down of a rate limit.

use std::time::Duration;

use aplomb::conditions::RECONCILING;
use aplomb_api::coder::{conditions as kinds, reasons};

use super::plan_builder::{Course, Draft, Next, Stop};
use super::{PERMANENT_RETRY, WAITING_MAX_AGE, has_stored_token, secret_ref};
use crate::client::CallErrorClass;
use crate::ending::{End, record_rate_limit};
use crate::workspace_proxy::world::{Observed, Plan};

/// How soon a Secret is looked at again that should have been seen to be kept long since.
const SECRET_RETRY: Duration = Duration::from_secs(15);
/// How soon a server of former days is tried again.
const FORMER_SERVER_RETRY: Duration = Duration::from_secs(60);

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
        draft.blocked.push(hindrance.clone());
    }
    let now = (world.now, world.instant);
    let notes = &mut draft.notes;
    let hindrances = [&*draft.blocked, &*draft.former_blocked].concat();
    let record = &mut draft.status.rate_limited;
    record_rate_limit(&hindrances, world.remembered.throttled, now, record, notes);
    let held = draft.current().is_some_and(|it| has_stored_token(world, &it));
    let given = world.object.spec.bootstrap.is_none();
    draft.status.proxy_token_secret_ref = (held || given).then(|| secret_ref(&world.object));
    let mut conditions = super::conditions::build_conditions(world, &draft, stop.as_deref());
    let ready = conditions
        .iter()
        .any(|it| it.type_ == kinds::READY && it.status.as_str() == "True");
    draft.status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
    let end = min_wait(end, &draft, world);
    // What is rejected is not being worked on.
    if matches!(end, End::Rejected { .. }) {
        conditions.retain(|it| it.type_ != RECONCILING);
    }
    Plan {
        status: draft.status,
        conditions,
        notes: draft.notes,
        orphans: draft.orphans,
        needs_secret: stop.as_deref().is_some_and(needs_secret),
        step,
        end,
    }
}

/// The same end, or an earlier one if a blocked call can be retried earlier.
fn min_wait(end: End, draft: &Draft, world: &Observed) -> End {
    let turns = draft.former_blocked.iter().filter(|it| it.class().is_none());
    let ours: Vec<_> = draft.blocked.iter().chain(turns).cloned().collect();
    let mut end = end.min_wait(&ours, world.instant);
    if let (End::RequeueAfter(wait), false) = (&mut end, draft.former_blocked.is_empty()) {
        *wait = (*wait).min(FORMER_SERVER_RETRY);
    }
    end
}

/// How long until it is looked at again, from why it stopped.
fn end_for_stop(world: &Observed, draft: &Draft, stop: &Stop) -> End {
    match stop {
        // It was changed or deleted by another client: the next read shows that.
        Stop::Blocked(it) if it.class() == Some(CallErrorClass::Missing) => End::RequeueAfter(WAITING_MAX_AGE),
        Stop::Blocked(hindrance) => End::from_blocked(hindrance, world.instant, reasons::REGISTRATION_FAILED),
        Stop::Rejected { reason, message } => End::Rejected {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        Stop::SecretNotKept => End::RequeueAfter(SECRET_RETRY),
        Stop::Deleting(_) | Stop::FormerServer(_) => End::RequeueAfter(draft.wait),
        Stop::NoAccess | Stop::NoToken | Stop::NotEntitled | Stop::NotSupported => End::RequeueAfter(PERMANENT_RETRY),
    }
}

/// Whether the Secret is to be kept although nothing is written down. A name that is taken is tried
/// again: a finalizer that is removed and added again each time would trigger the object each time.
fn needs_secret(stop: &Stop) -> bool {
    match stop {
        Stop::SecretNotKept => true,
        Stop::Rejected { reason, .. } => *reason == reasons::PROXY_FOREIGN,
        _ => false,
    }
}

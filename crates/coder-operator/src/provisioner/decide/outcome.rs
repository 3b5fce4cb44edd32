//! The plan, from where a course ended: when to look again, and what is written down of a rate limit.

use std::time::Duration;

use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::coder::{conditions as kinds, reasons};

use super::draft::{Course, Draft, Next, Stop};
use super::said::said;
use super::{SELDOM, secret_ref};
use crate::ending::{End, limited};
use crate::provisioner::world::{Observed, Plan};

/// How soon a server of former days is tried again.
const ELSEWHERE: Duration = Duration::from_secs(60);
/// How soon a Secret is looked at again that should have been seen to be kept long since.
const UNHELD: Duration = Duration::from_secs(15);
/// How soon an organization that is missing is asked for again.
const MISSING: Duration = Duration::from_secs(120);

/// The plan of a course that ended so.
pub(super) fn conclude(world: &Observed, mut draft: Draft, ended: Course<()>) -> Plan {
    let mut stop: Option<Box<Stop>> = None;
    let (step, end) = match ended {
        Ok(()) => (None, End::Again(draft.wait)),
        Err(Next::Step(step)) => (Some(*step), End::Again(Duration::ZERO)),
        Err(Next::Persist) => (None, End::Again(Duration::ZERO)),
        Err(Next::Stop(why)) => {
            let end = end(world, &draft, &why);
            stop = Some(why);
            (None, end)
        }
    };
    if let Some(Stop::Hindered(hindrance)) = stop.as_deref() {
        draft.hinder(&hindrance.clone());
    }
    let now = (world.now, world.instant);
    let notes = &mut draft.notes;
    let hindrances = [&*draft.hindrances, &*draft.elsewhere].concat();
    let record = &mut draft.status.rate_limited;
    limited(&hindrances, world.memory.throttled, now, record, notes);
    mirror(&mut draft, world);
    let mut conditions = said(world, &draft, stop.as_deref());
    let ready = conditions
        .iter()
        .any(|it| it.kind == kinds::READY && it.status == ConditionStatus::True);
    draft.status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
    let mut end = end.sooner(&draft.hindrances, world.instant);
    if let (End::Again(wait), false) = (&mut end, draft.elsewhere.is_empty()) {
        *wait = (*wait).min(ELSEWHERE);
    }
    if matches!(end, End::Rejected { .. }) {
        conditions.retain(|it| it.kind != RECONCILING);
    }
    Plan {
        status: draft.status,
        conditions,
        notes: draft.notes,
        connected: draft.serving,
        orphans: draft.orphans,
        unheld: matches!(stop.as_deref(), Some(Stop::Unheld)),
        step,
        end,
    }
}

/// How long until it is looked at again, from why it stopped.
fn end(world: &Observed, draft: &Draft, stop: &Stop) -> End {
    match stop {
        Stop::Hindered(hindrance) => End::hindered(hindrance, world.instant, reasons::KEY_FAILED),
        Stop::Rejected { reason, message } => End::Rejected {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        Stop::NoOrganization => End::Again(MISSING),
        Stop::Unheld => End::Again(UNHELD),
        Stop::Leaving(_) => End::Again(draft.wait),
        Stop::Denied | Stop::NotEntitled | Stop::NotSupported => End::Again(SELDOM),
    }
}

/// Repeats at the top of the status what people look for.
fn mirror(draft: &mut Draft, world: &Observed) {
    let status = &mut draft.status;
    let key = status.key.clone();
    status.provisioner_key_name = key.as_ref().map(|it| it.name.clone());
    status.provisioner_key_id = key.as_ref().and_then(|it| it.id.clone());
    status.tags_hash = key.as_ref().map(|it| it.tags_hash.clone());
    status.secret_ref = key.map(|_| secret_ref(&world.object));
}

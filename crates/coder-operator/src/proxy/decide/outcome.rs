//! The plan that a course comes to: when it is looked at again, and what is written down of a rate limit.

use std::time::Duration;

use aplomb::conditions::RECONCILING;
use aplomb_api::coder::{conditions as kinds, reasons};

use super::draft::{Course, Draft, Next, Stop};
use super::{SELDOM, SOON, said, secret_ref, stored};
use crate::client::CallErrorClass;
use crate::ending::{End, limited};
use crate::proxy::world::{Observed, Plan};

/// How soon a Secret is looked at again that should have been seen to be kept long since.
const UNHELD: Duration = Duration::from_secs(15);
/// How soon a server of former days is tried again.
const ELSEWHERE: Duration = Duration::from_secs(60);

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
        draft.hindrances.push(hindrance.clone());
    }
    let now = (world.now, world.instant);
    let notes = &mut draft.notes;
    let hindrances = [&*draft.hindrances, &*draft.elsewhere].concat();
    let record = &mut draft.status.rate_limited;
    limited(&hindrances, world.memory.throttled, now, record, notes);
    let held = draft.current().is_some_and(|it| stored(world, &it));
    let given = world.object.spec.bootstrap.is_none();
    draft.status.proxy_token_secret_ref = (held || given).then(|| secret_ref(&world.object));
    let mut conditions = said::all(world, &draft, stop.as_deref());
    let ready = conditions
        .iter()
        .any(|it| it.kind == kinds::READY && it.status.word() == "True");
    draft.status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
    let end = paced(end, &draft, world);
    // What is rejected is not being worked on.
    if matches!(end, End::Rejected { .. }) {
        conditions.retain(|it| it.kind != RECONCILING);
    }
    Plan {
        status: draft.status,
        conditions,
        notes: draft.notes,
        orphans: draft.orphans,
        unheld: stop.as_deref().is_some_and(wants_secret),
        step,
        end,
    }
}

/// The same end, or an earlier one if a blocked call can be retried earlier.
fn paced(end: End, draft: &Draft, world: &Observed) -> End {
    let turns = draft.elsewhere.iter().filter(|it| it.class().is_none());
    let ours: Vec<_> = draft.hindrances.iter().chain(turns).cloned().collect();
    let mut end = end.sooner(&ours, world.instant);
    if let (End::Again(wait), false) = (&mut end, draft.elsewhere.is_empty()) {
        *wait = (*wait).min(ELSEWHERE);
    }
    end
}

/// How long until it is looked at again, from why it stopped.
fn end(world: &Observed, draft: &Draft, stop: &Stop) -> End {
    match stop {
        // It was changed or deleted by another client: the next read shows that.
        Stop::Hindered(it) if it.class() == Some(CallErrorClass::Missing) => End::Again(SOON),
        Stop::Hindered(hindrance) => {
            End::hindered(hindrance, world.instant, reasons::REGISTRATION_FAILED)
        }
        Stop::Rejected { reason, message } => End::Rejected {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        Stop::Unheld => End::Again(UNHELD),
        Stop::Leaving(_) | Stop::Elsewhere(_) => End::Again(draft.wait),
        Stop::Denied | Stop::NoToken | Stop::NotEntitled | Stop::NotSupported => End::Again(SELDOM),
    }
}

/// Whether the Secret is to be kept although nothing is written down. A name that is taken is tried
/// again: a finalizer that is removed and added again each time would trigger the object each time.
fn wants_secret(stop: &Stop) -> bool {
    match stop {
        Stop::Unheld => true,
        Stop::Rejected { reason, .. } => *reason == reasons::PROXY_FOREIGN,
        _ => false,
    }
}

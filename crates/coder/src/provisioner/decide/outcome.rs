//! The plan, from where a course ended: when to look again, and what is written down of a rate limit.

use std::time::Duration;

use aplomb::Note;
use aplomb::conditions::Status;
use aplomb_api::coder::{RateLimited, conditions as kinds, reasons};

use super::draft::{Course, Draft, Next, Stop, after, seconds};
use super::said::{limited_story, said};
use super::{SELDOM, SOON, secret_ref};
use crate::client::Class;
use crate::provisioner::world::{End, Hindrance, Plan, World};

/// How soon what was refused for the limit is looked at again; the gate knows how long it really takes.
const MOMENT: Duration = Duration::from_secs(1);
/// How soon an organisation that is missing is asked for again.
const MISSING: Duration = Duration::from_secs(120);
/// The longest that one step of a backoff takes: what a restarted process waits, at most.
const LONGEST_BACKOFF: Duration = Duration::from_secs(120);

/// The plan of a course that ended so.
pub(super) fn conclude(world: &World, mut draft: Draft, ended: Course<()>) -> Plan {
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
    limited(world, &mut draft);
    mirror(&mut draft, world);
    let conditions = said(world, &draft, stop.as_deref());
    let ready = conditions
        .iter()
        .any(|it| it.kind == kinds::READY && it.status == Status::True);
    draft.status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
    let end = sooner(world, end, &draft);
    Plan {
        status: draft.status,
        conditions,
        notes: draft.notes,
        connected: draft.serving,
        orphans: draft.orphans,
        step,
        end,
    }
}

/// How long until it is looked at again, from why it stopped.
fn end(world: &World, draft: &Draft, stop: &Stop) -> End {
    match stop {
        Stop::Hindered(hindrance) => held_up(world, hindrance),
        Stop::Rejected { reason, message } => End::Rejected {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        Stop::NoOrganization => End::Again(MISSING),
        Stop::Leaving(_) => End::Again(draft.wait),
        Stop::Denied | Stop::NotEntitled | Stop::NotSupported => End::Again(SELDOM),
    }
}

fn held_up(world: &World, hindrance: &Hindrance) -> End {
    match hindrance {
        Hindrance::Later { until, .. } => End::Again(
            until
                .saturating_duration_since(world.instant)
                .max(MOMENT / 10),
        ),
        Hindrance::Refused(error) => match error.class {
            Class::Limited => End::Again(MOMENT),
            Class::Server | Class::NoAnswer => End::Unavailable(error.to_string()),
            Class::Token => End::Again(SELDOM),
            _ => End::Rejected {
                reason: reasons::KEY_FAILED.to_owned(),
                message: error.to_string(),
            },
        },
    }
}

/// What hindered a course that went on all the same is tried again in its time.
fn sooner(world: &World, end: End, draft: &Draft) -> End {
    let End::Again(wait) = end else {
        return end;
    };
    let turns = draft.hindrances.iter().filter(|it| it.passes());
    let soonest = turns.map(|it| match it {
        Hindrance::Later { until, .. } => {
            until.saturating_duration_since(world.instant).max(MOMENT)
        }
        Hindrance::Refused(_) => SOON,
    });
    End::Again(soonest.fold(wait, Duration::min))
}

/// Writes down once that the server refuses for its limit, and takes it back when it does not.
fn limited(world: &World, draft: &mut Draft) {
    let told = draft.hindrances.iter().find_map(|it| match it {
        Hindrance::Later {
            limited: true,
            endpoint,
            until,
        } => Some((*endpoint, Some(*until))),
        Hindrance::Refused(error) if error.class == Class::Limited => Some((error.endpoint, None)),
        _ => None,
    });
    match (told, &draft.status.rate_limited) {
        (Some((endpoint, until)), None) => {
            let wait = until.map(|until| until.saturating_duration_since(world.instant));
            let wait = wait.unwrap_or(SOON).min(LONGEST_BACKOFF);
            draft.notes.push(Note::warning(
                "RateLimited",
                "Call",
                limited_story(endpoint),
            ));
            let since = seconds(world.now);
            draft.status.rate_limited = Some(RateLimited {
                endpoint: endpoint.to_owned(),
                not_before: seconds(after(&since, wait)),
                since,
            });
        }
        (None, Some(_)) => {
            draft.status.rate_limited = None;
            let story = "the server answers again within its rate limit";
            draft.notes.push(Note::normal("Recovered", "Call", story));
        }
        _ => {}
    }
}

/// Repeats at the top of the status what people look for.
fn mirror(draft: &mut Draft, world: &World) {
    let status = &mut draft.status;
    let key = status.key.clone();
    status.provisioner_key_name = key.as_ref().map(|it| it.name.clone());
    status.provisioner_key_id = key.as_ref().and_then(|it| it.id.clone());
    status.tags_hash = key.as_ref().map(|it| it.tags_hash.clone());
    status.secret_ref = key.map(|_| secret_ref(&world.object));
}

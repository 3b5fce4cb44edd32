//! The way out: pods stop, registrations are taken back, and only then the object goes. What cannot be
//! taken back is reported.

use std::time::Duration;

use aplomb_api::coder::{PendingProxy, RetiringProxy, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::plan_builder::{Course, Draft, Next, Stop};
use super::registration::{is_own_proxy, lookup_proxy, rebind_records};
use super::{WAITING_MAX_AGE, has_finalizer};
use crate::blocked::Blocked;
use crate::conditions;
use crate::conditions::elapsed;
use crate::server::MaxAge;
use crate::workspace_proxy::{Observed, ProxyRegistration, ProxyScope, Step};

pub(super) fn decide_deletion(world: &Observed, draft: &mut Draft) -> Course<()> {
    if !has_finalizer(world) || world.progress.released {
        return Ok(());
    }
    draft.retire_current(world);
    if world.remembered.unrequested_name == draft.status.pending.as_ref().map(|it| it.name.clone()) {
        draft.status.pending = None;
    }
    if let Some(Ok(access)) = &world.access {
        rebind_records(draft, access);
    }
    if is_abandoned(world) {
        abandon_all(draft);
    }
    let mut stopped = defer_stop(drop_pending(world, draft))?;
    if is_deregistered(draft) {
        return Err(Next::step(Step::Release));
    }
    let runs = world.deployment.as_ref().is_some_and(|it| it.replicas != 0);
    let deleted = world.object.metadata.deletion_timestamp.as_ref();
    // Pods that cannot be stopped hold the registration up until the deadline, and no longer.
    if runs && !world.progress.drained && !deleted.is_some_and(|it| is_overdue(world, it)) {
        return Err(Next::step(Step::Drain));
    }
    for old in draft.status.retiring.clone() {
        let stop = defer_stop(deregister_retired(world, draft, &old))?;
        stopped = stopped.or(stop);
    }
    match is_deregistered(draft) {
        true => Err(Next::step(Step::Release)),
        false => stopped.map_or(Ok(()), |stop| Err(Next::Stop(stop))),
    }
}

/// Whether nothing is left at any server.
fn is_deregistered(draft: &Draft) -> bool {
    draft.status.retiring.is_empty() && draft.status.pending.is_none()
}

/// One that cannot go does not hold up the others.
pub(super) fn defer_stop(course: Course<()>) -> Course<Option<Box<Stop>>> {
    match course {
        Ok(()) => Ok(None),
        Err(Next::Stop(stop)) => Ok(Some(stop)),
        Err(next) => Err(next),
    }
}

/// Takes one registration back. It is given up only after a try in this reconcile, so that an
/// operator that was down until the deadline still deletes what it can reach.
fn deregister_retired(world: &Observed, draft: &mut Draft, old: &RetiringProxy) -> Course<()> {
    let (at, name) = (&old.binding, &old.name);
    let bound = world.bound_scopes.contains(&ProxyScope::for_binding(at));
    let hindrance = deregister_blocked(world, old).filter(|_| bound);
    if bound && hindrance.is_none() {
        return Err(Next::step(Step::Deregister(old.clone())));
    }
    if is_overdue(world, &old.retired) && !hindrance.is_some_and(is_queued) {
        draft.abandon_registration(old);
        return Ok(());
    }
    let stop = match hindrance {
        Some(hindrance) => draft.stop_blocked(world, at, name, hindrance),
        None => Stop::Deleting(unreachable_message(world, draft)),
    };
    Err(stop.into())
}

/// A name that was written down may have been registered: then it is to be taken back too.
pub(super) fn drop_pending(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(pending) = draft.status.pending.clone() else {
        return Ok(());
    };
    let (at, name) = (&pending.binding, &pending.name);
    let looked = match world.bound_scopes.contains(&ProxyScope::for_binding(at)) {
        true => lookup_proxy(world, at, name, MaxAge::Since(world.pass_started)),
        false => Err(Stop::Deleting(unreachable_message(world, draft)).into()),
    };
    let found = match looked {
        Ok(listed) => listed.value.clone(),
        Err(Next::Stop(stop)) => return report_unverifiable(world, draft, &pending, *stop),
        Err(next) => return Err(next),
    };
    draft.status.pending = None;
    if let Some(found) = found.filter(|found| is_own_proxy(world, &pending, found)) {
        let made = ProxyRegistration {
            id: found.id,
            name: pending.name,
            binding: pending.binding,
        };
        if !world.progress.deleted.contains(&made.id) {
            draft.retire_registration(made, world);
        }
    }
    Ok(())
}

/// It is unknown whether a name in the status was registered: it is waited for, and then reported.
fn report_unverifiable(world: &Observed, draft: &mut Draft, pending: &PendingProxy, stop: Stop) -> Course<()> {
    let (at, name) = (&pending.binding, &pending.name);
    let waits = matches!(&stop, Stop::Blocked(hindrance) if is_queued(hindrance));
    if is_overdue(world, &pending.since) && !waits {
        draft.status.pending = None;
        draft.orphan_registration(&at.server_url, name);
        return Ok(());
    }
    let stop = match stop {
        Stop::Blocked(hindrance) => draft.stop_blocked(world, at, name, &hindrance),
        stop => stop,
    };
    Err(stop.into())
}

/// Whether the object is to go without the server.
fn is_abandoned(world: &Observed) -> bool {
    world
        .object
        .annotations()
        .get(annotations::ABANDON)
        .is_some_and(|it| it == "true")
}

/// Whether a server was waited for long enough: since the deletion, or else since `since`.
fn is_overdue(world: &Observed, since: &Time) -> bool {
    let since = world.object.metadata.deletion_timestamp.as_ref().unwrap_or(since);
    elapsed(since, world.now) >= deadline(world)
}

fn abandon_all(draft: &mut Draft) {
    for old in std::mem::take(&mut draft.status.retiring) {
        draft.orphan_registration(&old.binding.server_url, &old.name);
    }
    if let Some(pending) = draft.status.pending.take() {
        draft.orphan_registration(&pending.binding.server_url, &pending.name);
    }
}

/// What is left at servers that no token leads to, and the ways out.
fn unreachable_message(world: &Observed, draft: &Draft) -> String {
    let pending = draft.status.pending.iter().map(|it| (&it.name, &it.binding));
    let retiring = draft.status.retiring.iter().map(|it| (&it.name, &it.binding));
    let all = retiring.chain(pending);
    let left = all.filter(|(_, at)| !world.bound_scopes.contains(&ProxyScope::for_binding(at)));
    let left = left.map(|(name, at)| ("proxy", &**name, at));
    conditions::leftovers_message(left, "cwp", &world.object.metadata)
}

/// How long pods of an earlier template may linger.
pub(super) const POD_LINGER: Duration = Duration::from_secs(300);
/// How long a server that cannot be reached is waited for, where the spec says nothing any more.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(86_400);

pub(super) fn decide_retirement(world: &Observed, draft: &mut Draft) -> Course<()> {
    for old in draft.status.retiring.clone() {
        let bound = world.bound_scopes.contains(&ProxyScope::for_binding(&old.binding));
        if bound && !is_replaced(world, draft, &old) {
            draft.requeue_within(WAITING_MAX_AGE);
            continue;
        }
        let late = elapsed(&old.retired, world.now) >= deadline(world);
        match deregister_blocked(world, &old) {
            None if bound => return Err(Next::step(Step::Deregister(old))),
            Some(hindrance) if !late || is_queued(hindrance) => {
                draft.record_blocked_at(world, &old.binding, hindrance);
            }
            _ if late => draft.abandon_registration(&old),
            _ => {}
        }
    }
    Ok(())
}

/// Why a registration was not taken back in this pass. One that is hindered does not hold up the others.
pub(super) fn deregister_blocked<'a>(world: &'a Observed, old: &RetiringProxy) -> Option<&'a Blocked> {
    let same = |it: &RetiringProxy| it.id == old.id && it.binding.server_url == old.binding.server_url;
    let mut all = world.progress.deregister_blocked.iter();
    all.find(|(it, _)| same(it)).map(|(_, why)| why)
}

/// Whether a call only waits for its turn: its server is there, and it is not given up.
pub(super) fn is_queued(hindrance: &Blocked) -> bool {
    matches!(hindrance, Blocked::Later { limited: false, .. })
}

/// How long a server is waited for.
pub(super) fn deadline(world: &Observed) -> Duration {
    let bootstrap = world.object.spec.bootstrap.as_ref();
    bootstrap.map_or(DEFAULT_DEADLINE, |it| it.deletion_deadline.0)
}

/// Whether the pods serve under the new registration, and those under the old one are gone or had the time
/// to go.
fn is_replaced(world: &Observed, draft: &Draft, old: &RetiringProxy) -> bool {
    let replicas = world.object.spec.replicas;
    let deployment = world.deployment.clone().unwrap_or_default();
    let serves = match &world.access {
        _ if replicas == 0 => true,
        Some(_) => draft.healthy == Some(true),
        None => deployment.ready >= replicas,
    };
    serves && (deployment.rolled || elapsed(&old.retired, world.now) >= POD_LINGER)
}

//! The way out: pods stop, registrations are taken back, and only then the object goes. What cannot be
//! taken back is reported.

use aplomb_api::coder::{PendingProxy, RetiringProxy, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::draft::{Course, Draft, Next, Stop};
use super::registration::{look, ours, rebind};
use super::retire::{queued, undone};
use super::{holds, retire};
use crate::proxy::world::{Observed, ProxyRegistration, ProxyScope, Step};
use crate::said;
use crate::server::MaxAge;
use crate::times::elapsed;

pub(super) fn course(world: &Observed, draft: &mut Draft) -> Course<()> {
    if !holds(world) || world.seen.released {
        return Ok(());
    }
    draft.retire_current(world);
    if world.memory.unasked == draft.status.pending.as_ref().map(|it| it.name.clone()) {
        draft.status.pending = None;
    }
    if let Some(Ok(access)) = &world.access {
        rebind(draft, access);
    }
    if told(world) {
        abandon(draft);
    }
    let mut stopped = held(unintend(world, draft))?;
    if is_free(draft) {
        return Err(Next::step(Step::Release));
    }
    let runs = world.deployment.as_ref().is_some_and(|it| it.replicas != 0);
    let deleted = world.object.metadata.deletion_timestamp.as_ref();
    // Pods that cannot be stopped hold the registration up until the deadline, and no longer.
    if runs && !world.seen.drained && !deleted.is_some_and(|it| over(world, it)) {
        return Err(Next::step(Step::Drain));
    }
    for old in draft.status.retiring.clone() {
        let stop = held(one(world, draft, &old))?;
        stopped = stopped.or(stop);
    }
    match is_free(draft) {
        true => Err(Next::step(Step::Release)),
        false => stopped.map_or(Ok(()), |stop| Err(Next::Stop(stop))),
    }
}

/// Whether nothing is left at any server.
fn is_free(draft: &Draft) -> bool {
    draft.status.retiring.is_empty() && draft.status.pending.is_none()
}

/// One that cannot go does not hold up the others.
pub(super) fn held(course: Course<()>) -> Course<Option<Box<Stop>>> {
    match course {
        Ok(()) => Ok(None),
        Err(Next::Stop(stop)) => Ok(Some(stop)),
        Err(next) => Err(next),
    }
}

/// Takes one registration back. It is given up only after a try in this reconcile, so that an
/// operator that was down until the deadline still deletes what it can reach.
fn one(world: &Observed, draft: &mut Draft, old: &RetiringProxy) -> Course<()> {
    let (at, name) = (&old.binding, &old.name);
    let bound = world.bound.contains(&ProxyScope::of(at));
    let hindrance = undone(world, old).filter(|_| bound);
    if bound && hindrance.is_none() {
        return Err(Next::step(Step::Deregister(old.clone())));
    }
    if over(world, &old.retired) && !hindrance.is_some_and(queued) {
        draft.leave(old);
        return Ok(());
    }
    let stop = match hindrance {
        Some(hindrance) => draft.held_up(world, at, name, hindrance),
        None => Stop::Leaving(unreachable(world, draft)),
    };
    Err(stop.into())
}

/// A name that was written down may have been registered: then it is to be taken back too.
pub(super) fn unintend(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(pending) = draft.status.pending.clone() else {
        return Ok(());
    };
    let (at, name) = (&pending.binding, &pending.name);
    let looked = match world.bound.contains(&ProxyScope::of(at)) {
        true => look(world, at, name, MaxAge::Since(world.began)),
        false => Err(Stop::Leaving(unreachable(world, draft)).into()),
    };
    let found = match looked {
        Ok(listed) => listed.value.clone(),
        Err(Next::Stop(stop)) => return unseen(world, draft, &pending, *stop),
        Err(next) => return Err(next),
    };
    draft.status.pending = None;
    if let Some(found) = found.filter(|found| ours(world, &pending, found)) {
        let made = ProxyRegistration {
            id: found.id,
            name: pending.name,
            binding: pending.binding,
        };
        if !world.seen.deleted.contains(&made.id) {
            draft.retire(made, world);
        }
    }
    Ok(())
}

/// It is unknown whether a name in the status was registered: it is waited for, and then reported.
fn unseen(world: &Observed, draft: &mut Draft, pending: &PendingProxy, stop: Stop) -> Course<()> {
    let (at, name) = (&pending.binding, &pending.name);
    let waits = matches!(&stop, Stop::Hindered(hindrance) if queued(hindrance));
    if over(world, &pending.since) && !waits {
        draft.status.pending = None;
        draft.orphan(&at.server_url, name);
        return Ok(());
    }
    let stop = match stop {
        Stop::Hindered(hindrance) => draft.held_up(world, at, name, &hindrance),
        stop => stop,
    };
    Err(stop.into())
}

/// Whether the object is to go without the server.
fn told(world: &Observed) -> bool {
    let told = world.object.annotations().get(annotations::ABANDON);
    told.is_some_and(|it| it == "true")
}

/// Whether a server was waited for long enough: since the deletion, or else since `since`.
fn over(world: &Observed, since: &Time) -> bool {
    let since = world
        .object
        .metadata
        .deletion_timestamp
        .as_ref()
        .unwrap_or(since);
    elapsed(since, world.now) >= retire::deadline(world)
}

fn abandon(draft: &mut Draft) {
    for old in std::mem::take(&mut draft.status.retiring) {
        draft.orphan(&old.binding.server_url, &old.name);
    }
    if let Some(pending) = draft.status.pending.take() {
        draft.orphan(&pending.binding.server_url, &pending.name);
    }
}

/// What is left at servers that no token leads to, and the ways out.
fn unreachable(world: &Observed, draft: &Draft) -> String {
    let pending = draft
        .status
        .pending
        .iter()
        .map(|it| (&it.name, &it.binding));
    let retiring = draft
        .status
        .retiring
        .iter()
        .map(|it| (&it.name, &it.binding));
    let all = retiring.chain(pending);
    let left = all.filter(|(_, at)| !world.bound.contains(&ProxyScope::of(at)));
    let left = left.map(|(name, at)| ("proxy", &**name, at));
    said::left(left, "cwp", &world.object.metadata)
}

//! The way out: daemons finish, keys go, and only then the object. What cannot be deleted is reported.

use aplomb_api::coder::{KeyRecord, RetiringKey, annotations};
use kube::ResourceExt;

use super::draft::{Course, Draft, Next, Stop};
use super::retire::{grace, online, taken, undeleted, unverified};
use super::{NEARLY, SOON, holds, key};
use crate::hindrance::Blocked;
use crate::provisioner::world::{BoundKeyScope, KeyScope, Observed, Step};
use crate::said;
use crate::server::MaxAge;
use crate::times::elapsed;

pub(super) fn course(world: &Observed, draft: &mut Draft) -> Course<()> {
    if !holds(world) || world.seen.released {
        return Ok(());
    }
    unintend(world, draft);
    if let Ok(access) = &world.access {
        key::rebind(draft, access);
    }
    if let Some(key) = draft.status.key.take() {
        draft.retire(key, true, world);
    }
    if abandoned(world) {
        for old in std::mem::take(&mut draft.status.retiring) {
            draft.orphan(old.key);
        }
    }
    if draft.status.retiring.is_empty() {
        return Err(Next::step(Step::Release));
    }
    let runs = world.deployment.as_ref().is_some_and(|it| it.replicas != 0);
    // Pods that cannot be stopped hold the key up until the deadline, and no longer.
    if runs && !world.seen.drained && !overdue(world) {
        return Err(Next::step(Step::Drain));
    }
    let mut stopped = None;
    for old in draft.status.retiring.clone() {
        match one(world, draft, &old) {
            Err(Next::Stop(stop)) if overdue(world) && !stop.waits_for_a_turn() => {
                draft.status.retiring.retain(|it| it.key != old.key);
                draft.orphan(old.key);
            }
            // One that cannot go does not hold up the others.
            Err(Next::Stop(stop)) => stopped = stopped.or(Some(stop)),
            gone => gone?,
        }
    }
    // What was not there needed no deletion.
    match draft.status.retiring.is_empty() {
        true => Err(Next::step(Step::Release)),
        false => stopped.map_or(Ok(()), |stop| Err(Next::Stop(stop))),
    }
}

/// A name that was written down and certainly not asked for needs nothing.
fn unintend(world: &Observed, draft: &mut Draft) {
    let Some(pending) = draft.status.pending.take() else {
        return;
    };
    let stored = key::holds(world, &pending.name);
    if stored || world.memory.unasked.as_ref() != Some(&pending.name) {
        draft.retire(pending, stored, world);
    }
}

/// Whether the object goes without the server.
fn abandoned(world: &Observed) -> bool {
    let told = world.object.annotations().get(annotations::ABANDON);
    told.is_some_and(|it| it == "true")
}

/// Whether a deletion has taken as long as it may: what cannot be deleted now is left behind.
fn overdue(world: &Observed) -> bool {
    let since = world.object.metadata.deletion_timestamp.as_ref();
    let deadline = world.object.spec.deletion_deadline.0;
    since.is_some_and(|since| elapsed(since, world.now) >= deadline)
}

fn one(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<()> {
    if !world.bound.contains(&KeyScope::of(&old.key)) {
        return Err(Stop::Leaving(unreachable(world, draft)).into());
    }
    let idle = match old.used {
        true => finished(world, draft, old)?,
        false => unverified(world, draft, old)?,
    };
    if !idle {
        draft.again(SOON);
        return Ok(());
    }
    if taken(world, draft, &old.key)? {
        return Ok(());
    }
    match undeleted(world, &old.key) {
        None => Err(Next::step(Step::Delete(old.key.clone()))),
        Some(hindrance) => Err(held_up(world, draft, &old.key, hindrance)),
    }
}

/// A server of former days that holds a deletion up says nothing about today's.
fn held_up(world: &Observed, draft: &mut Draft, key: &KeyRecord, hindrance: &Blocked) -> Next {
    let today = world
        .access
        .as_ref()
        .is_ok_and(|it| it.url == key.binding.server_url);
    if today {
        return Stop::Hindered(hindrance.clone()).into();
    }
    draft.hinder_at(world, key, hindrance);
    let KeyRecord { name, binding, .. } = key;
    let server = &binding.server_url;
    let story = format!("cannot delete key {name} at {server} yet; will retry");
    Stop::Leaving(said::waits(
        &story,
        hindrance,
        "cprov",
        &world.object.metadata,
    ))
    .into()
}

/// What is left at servers that no token leads to, and the ways out.
fn unreachable(world: &Observed, draft: &Draft) -> String {
    let all = draft.status.retiring.iter().map(|it| &it.key);
    let left = all.filter(|it| !world.bound.contains(&KeyScope::of(it)));
    let left = left.map(|it| ("key", &*it.name, &it.binding));
    said::left(left, "cprov", &world.object.metadata)
}

/// Whether no daemon is connected with a key any more, or has had the time that it may take.
fn finished(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<bool> {
    let key = &old.key;
    let since = world.object.metadata.deletion_timestamp.as_ref();
    // Also if the operator was down during the deletion, the grace period counts from here.
    let since = since.map(|since| elapsed(since, world.now).min(elapsed(&old.retired, world.now)));
    if since.is_some_and(|since| since >= grace(world)) || overdue(world) {
        return Ok(true);
    }
    let place = BoundKeyScope::new(&key.binding, &key.organization_id);
    match world.seen.daemons.get(&place.place) {
        None => Err(Next::step(Step::Daemons(
            place,
            MaxAge::Within(SOON - NEARLY),
        ))),
        Some(Err(hindrance)) => Err(held_up(world, draft, key, hindrance)),
        Some(Ok(listed)) if online(&listed.value, &key.name) > 0 => {
            draft.again(SOON);
            let story = format!("waiting for daemons to finish their jobs before key {} is deleted", key.name);
            Err(Stop::Leaving(story).into())
        }
        Some(Ok(_)) => Ok(true),
    }
}

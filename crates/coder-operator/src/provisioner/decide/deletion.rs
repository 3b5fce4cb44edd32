//! The way out: daemons finish, keys go, and only then the object. What cannot be deleted is reported.

use aplomb_api::coder::{KeyRecord, RetiringKey, annotations};
use kube::ResourceExt;

use super::plan_builder::{Course, Draft, Next, Stop};
use super::retire::{connected_daemons, delete_blocked, is_name_taken, shutdown_grace, verify_existence};
use super::{AGE_TOLERANCE, WAITING_POLL, has_finalizer, key};
use crate::conditions;
use crate::hindrance::Blocked;
use crate::provisioner::world::{BoundKeyScope, KeyScope, Observed, Step};
use crate::server::MaxAge;
use crate::times::elapsed;

pub(super) fn decide_deletion(world: &Observed, draft: &mut Draft) -> Course<()> {
    if !has_finalizer(world) || world.progress.released {
        return Ok(());
    }
    drop_pending(world, draft);
    if let Ok(access) = &world.access {
        key::rebind_records(draft, access);
    }
    if let Some(key) = draft.status.key.take() {
        draft.retire_key(key, true, world);
    }
    if is_abandoned(world) {
        for old in std::mem::take(&mut draft.status.retiring) {
            draft.orphan_key(old.key);
        }
    }
    if draft.status.retiring.is_empty() {
        return Err(Next::step(Step::Release));
    }
    let runs = world.deployment.as_ref().is_some_and(|it| it.replicas != 0);
    // Pods that cannot be stopped hold the key up until the deadline, and no longer.
    if runs && !world.progress.drained && !is_overdue(world) {
        return Err(Next::step(Step::Drain));
    }
    let mut stopped = None;
    for old in draft.status.retiring.clone() {
        match delete_retired(world, draft, &old) {
            Err(Next::Stop(stop)) if is_overdue(world) && !stop.is_queued() => {
                draft.status.retiring.retain(|it| it.key != old.key);
                draft.orphan_key(old.key);
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
fn drop_pending(world: &Observed, draft: &mut Draft) {
    let Some(pending) = draft.status.pending.take() else {
        return;
    };
    let stored = key::secret_holds(world, &pending.name);
    if stored || world.remembered.unrequested_name.as_ref() != Some(&pending.name) {
        draft.retire_key(pending, stored, world);
    }
}

/// Whether the object goes without the server.
fn is_abandoned(world: &Observed) -> bool {
    let told = world.object.annotations().get(annotations::ABANDON);
    told.is_some_and(|it| it == "true")
}

/// Whether a deletion has taken as long as it may: what cannot be deleted now is left behind.
fn is_overdue(world: &Observed) -> bool {
    let since = world.object.metadata.deletion_timestamp.as_ref();
    let deadline = world.object.spec.deletion_deadline.0;
    since.is_some_and(|since| elapsed(since, world.now) >= deadline)
}

fn delete_retired(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<()> {
    if !world.bound_scopes.contains(&KeyScope::for_key(&old.key)) {
        return Err(Stop::Deleting(unreachable_message(world, draft)).into());
    }
    let idle = match old.used {
        true => daemons_stopped(world, draft, old)?,
        false => verify_existence(world, draft, old)?,
    };
    if !idle {
        draft.requeue_within(WAITING_POLL);
        return Ok(());
    }
    if is_name_taken(world, draft, &old.key)? {
        return Ok(());
    }
    match delete_blocked(world, &old.key) {
        None => Err(Next::step(Step::Delete(old.key.clone()))),
        Some(hindrance) => Err(wait_for_server(world, draft, &old.key, hindrance)),
    }
}

/// A server of former days that holds a deletion up says nothing about today's.
fn wait_for_server(world: &Observed, draft: &mut Draft, key: &KeyRecord, hindrance: &Blocked) -> Next {
    let today = world.access.as_ref().is_ok_and(|it| it.url == key.binding.server_url);
    if today {
        return Stop::Blocked(hindrance.clone()).into();
    }
    draft.record_blocked_at(world, key, hindrance);
    let KeyRecord { name, binding, .. } = key;
    let server = &binding.server_url;
    let story = format!("cannot delete key {name} at {server} yet; will retry");
    Stop::Deleting(conditions::deletion_waits_message(
        &story,
        hindrance,
        "cprov",
        &world.object.metadata,
    ))
    .into()
}

/// What is left at servers that no token leads to, and the ways out.
fn unreachable_message(world: &Observed, draft: &Draft) -> String {
    let all = draft.status.retiring.iter().map(|it| &it.key);
    let left = all.filter(|it| !world.bound_scopes.contains(&KeyScope::for_key(it)));
    let left = left.map(|it| ("key", &*it.name, &it.binding));
    conditions::leftovers_message(left, "cprov", &world.object.metadata)
}

/// Whether no daemon is connected with a key any more, or has had the time that it may take.
fn daemons_stopped(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<bool> {
    let key = &old.key;
    let since = world.object.metadata.deletion_timestamp.as_ref();
    // Also if the operator was down during the deletion, the grace period counts from here.
    let since = since.map(|since| elapsed(since, world.now).min(elapsed(&old.retired, world.now)));
    if since.is_some_and(|since| since >= shutdown_grace(world)) || is_overdue(world) {
        return Ok(true);
    }
    let place = BoundKeyScope::new(&key.binding, &key.organization_id);
    match world.progress.daemons.get(&place.place) {
        None => Err(Next::step(Step::Daemons(
            place,
            MaxAge::Within(WAITING_POLL - AGE_TOLERANCE),
        ))),
        Some(Err(hindrance)) => Err(wait_for_server(world, draft, key, hindrance)),
        Some(Ok(listed)) if connected_daemons(&listed.value, &key.name) > 0 => {
            draft.requeue_within(WAITING_POLL);
            let story = format!(
                "waiting for daemons to finish their jobs before key {} is deleted",
                key.name
            );
            Err(Stop::Deleting(story).into())
        }
        Some(Ok(_)) => Ok(true),
    }
}

//! The way out: daemons finish, keys go, and only then the object. What cannot be deleted is reported.

use std::time::Duration;

use aplomb_api::coder::{KeyRecord, RetiringKey, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::key::{find_by_name, is_own_key, is_replaced};
use super::plan_builder::{Course, Draft, Next, Stop, same_key};
use super::{AGE_TOLERANCE, WAITING_POLL, has_finalizer, key};
use crate::blocked::Blocked;
use crate::client::ProvisionerKeyDaemons;
use crate::conditions;
use crate::conditions::{elapsed, whole_seconds};
use crate::provisioner::{BoundKeyScope, KeyScope, Observed, Step};
use crate::server::MaxAge;

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
    world
        .object
        .annotations()
        .get(annotations::ABANDON)
        .is_some_and(|it| it == "true")
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

/// What a pod may take to stop besides its grace.
const STOP_MARGIN: Duration = Duration::from_secs(60);
/// How long after its answer was lost a call may still be carried out.
const LATE_CALL_WINDOW: Duration = Duration::from_secs(60);

/// How many daemons are connected with the key called `name`.
pub(super) fn connected_daemons(all: &[ProvisionerKeyDaemons], name: &str) -> u32 {
    let key = all.iter().find(|it| it.key.name == name);
    let daemons = key.and_then(|it| it.daemons.as_ref()).into_iter().flatten();
    let there = daemons.filter(|it| it.status.as_deref() != Some("offline"));
    u32::try_from(there.count()).unwrap_or(u32::MAX)
}

/// How long daemons of an old key may take to finish.
pub(super) fn shutdown_grace(world: &Observed) -> Duration {
    let grace = world.object.spec.termination_grace_period_seconds;
    Duration::from_secs(u64::try_from(grace).unwrap_or(0)) + STOP_MARGIN
}

pub(super) fn decide_retirement(world: &Observed, draft: &mut Draft) -> Course<()> {
    for old in draft.status.retiring.clone() {
        if is_retirement_overdue(world, &old) {
            draft.status.retiring.retain(|it| it.key != old.key);
            draft.orphan_key(old.key);
            continue;
        }
        if !world.bound_scopes.contains(&KeyScope::for_key(&old.key)) {
            continue;
        }
        if is_idle(world, draft, &old)? {
            if is_name_taken(world, draft, &old.key)? {
                continue;
            }
            match delete_blocked(world, &old.key) {
                None => return Err(Next::step(Step::Delete(old.key))),
                Some(hindrance) => draft.record_blocked_at(world, &old.key, hindrance),
            }
        } else {
            draft.requeue_within(WAITING_POLL);
        }
    }
    Ok(())
}

/// Why a key could not be deleted in this pass. One that is hindered does not hold up the others.
pub(super) fn delete_blocked<'a>(world: &'a Observed, key: &KeyRecord) -> Option<&'a Blocked> {
    let mut all = world.progress.undeleted.iter();
    all.find(|(it, _)| same_key(it, key)).map(|(_, why)| why)
}

/// Whether a key is there that may or may not have been made: one of its name may be another's.
pub(super) fn verify_existence(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<bool> {
    if old.key.id.is_some() {
        return Ok(true);
    }
    let place = BoundKeyScope::new(&old.key.binding, &old.key.organization_id);
    let listed = match world.progress.keys.get(&place.place) {
        None => {
            return Err(Next::step(Step::Keys(place, MaxAge::Since(world.pass_started))));
        }
        Some(Err(hindrance)) => {
            draft.record_blocked_at(world, &old.key, hindrance);
            return Ok(false);
        }
        Some(Ok(listed)) => listed,
    };
    let found = find_by_name(listed, &old.key.name);
    let made = found.is_some_and(|found| is_own_key(world, &old.key, found));
    let late = elapsed(&old.retired, world.now) >= LATE_CALL_WINDOW;
    if found.is_some() && !made {
        draft.note_foreign(&old.key.name);
    }
    if found.is_some() && !made || found.is_none() && late {
        draft.status.retiring.retain(|it| it.key != old.key);
    }
    Ok(made)
}

/// Whether a foreign key has the name of one of ours by now, as far as a list can be had. Then ours
/// is gone, and theirs is not to be deleted. The list of daemons shows the ids of keys too, and is
/// newer.
pub(super) fn is_name_taken(world: &Observed, draft: &mut Draft, key: &KeyRecord) -> Course<bool> {
    if key.id.is_none() {
        return Ok(false);
    }
    let place = BoundKeyScope::new(&key.binding, &key.organization_id);
    let found = match world.progress.daemons.get(&place.place) {
        // One from before a rate limit says no more than that of keys.
        Some(Ok(listed)) if world.instant.saturating_duration_since(listed.requested_at) < WAITING_POLL => {
            let mut all = listed.value.iter().map(|it| &it.key);
            all.find(|it| it.name == key.name)
        }
        _ => match world.progress.keys.get(&place.place) {
            None => {
                let fresh = MaxAge::Within(WAITING_POLL - AGE_TOLERANCE);
                return Err(Next::step(Step::Keys(place, fresh)));
            }
            Some(Err(_)) => return Ok(false),
            Some(Ok(listed)) => find_by_name(listed, &key.name),
        },
    };
    let another = found.is_some_and(|found| is_replaced(key, found));
    if another {
        draft.status.retiring.retain(|it| it.key != *key);
        draft.note_foreign(&key.name);
    }
    Ok(another)
}

/// A server that could not be reached for as long as a deletion may take is not waited for.
fn is_retirement_overdue(world: &Observed, old: &RetiringKey) -> bool {
    elapsed(&old.retired, world.now) >= world.object.spec.deletion_deadline.0
}

/// Whether an old key may go.
fn is_idle(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<bool> {
    if !old.used {
        return verify_existence(world, draft, old);
    }
    if !all_daemons_connected(world, draft) {
        return Ok(false);
    }
    if draining_since(world, draft, old).is_some_and(|since| elapsed(&since, world.now) >= shutdown_grace(world)) {
        return Ok(true);
    }
    let place = BoundKeyScope::new(&old.key.binding, &old.key.organization_id);
    match world.progress.daemons.get(&place.place) {
        None => Err(Next::step(Step::Daemons(
            place,
            MaxAge::Within(WAITING_POLL - AGE_TOLERANCE),
        ))),
        Some(Ok(listed)) => Ok(connected_daemons(&listed.value, &old.key.name) == 0),
        Some(Err(hindrance)) => {
            draft.record_blocked_at(world, &old.key, hindrance);
            Ok(false)
        }
    }
}

/// Whether the key in use has every daemon that is wanted.
fn all_daemons_connected(world: &Observed, draft: &Draft) -> bool {
    let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
    draft.connected.is_some_and(|connected| connected >= wanted)
}

/// Since when pods of an old key are on their way out: their grace runs from there, and not from when the
/// new key was made, since new pods may take any time to come.
fn draining_since(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Option<Time> {
    let over = world.deployment.as_ref().is_none_or(|it| it.rolled);
    let entry = draft.status.retiring.iter_mut().find(|it| it.key == old.key)?;
    if over {
        entry.replaced.get_or_insert_with(|| whole_seconds(world.now));
    }
    entry.replaced.clone()
}

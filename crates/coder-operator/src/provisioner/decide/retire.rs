//! Keys that were replaced: each goes once no daemon uses it, and not before its successor is in use.

use std::time::Duration;

use aplomb_api::coder::{KeyRecord, RetiringKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::{Course, Draft, Next, same};
use super::key::{is_another, named, ours};
use super::{NEARLY, SOON};
use crate::client::ProvisionerKeyDaemons;
use crate::hindrance::Blocked;
use crate::provisioner::world::{BoundKeyScope, KeyScope, Observed, Step};
use crate::server::MaxAge;
use crate::times::{elapsed, seconds};

/// What a pod may take to stop besides its grace.
const MARGIN: Duration = Duration::from_secs(60);
/// How long after its answer was lost a call may still be carried out.
const LATE: Duration = Duration::from_secs(60);

/// How many daemons are connected with the key called `name`.
pub(super) fn online(all: &[ProvisionerKeyDaemons], name: &str) -> u32 {
    let key = all.iter().find(|it| it.key.name == name);
    let daemons = key.and_then(|it| it.daemons.as_ref()).into_iter().flatten();
    let there = daemons.filter(|it| it.status.as_deref() != Some("offline"));
    u32::try_from(there.count()).unwrap_or(u32::MAX)
}

/// How long daemons of an old key may take to finish.
pub(super) fn grace(world: &Observed) -> Duration {
    let grace = world.object.spec.termination_grace_period_seconds;
    Duration::from_secs(u64::try_from(grace).unwrap_or(0)) + MARGIN
}

pub(super) fn course(world: &Observed, draft: &mut Draft) -> Course<()> {
    for old in draft.status.retiring.clone() {
        if overdue(world, &old) {
            draft.status.retiring.retain(|it| it.key != old.key);
            draft.orphan(old.key);
            continue;
        }
        if !world.bound.contains(&KeyScope::of(&old.key)) {
            continue;
        }
        if idle(world, draft, &old)? {
            if taken(world, draft, &old.key)? {
                continue;
            }
            match undeleted(world, &old.key) {
                None => return Err(Next::step(Step::Delete(old.key))),
                Some(hindrance) => draft.hinder_at(world, &old.key, hindrance),
            }
        } else {
            draft.again(SOON);
        }
    }
    Ok(())
}

/// Why a key could not be deleted in this pass. One that is hindered does not hold up the others.
pub(super) fn undeleted<'a>(world: &'a Observed, key: &KeyRecord) -> Option<&'a Blocked> {
    let mut all = world.seen.undeleted.iter();
    all.find(|(it, _)| same(it, key)).map(|(_, why)| why)
}

/// Whether a key is there that may or may not have been made: one of its name may be another's.
pub(super) fn unverified(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<bool> {
    if old.key.id.is_some() {
        return Ok(true);
    }
    let place = BoundKeyScope::new(&old.key.binding, &old.key.organization_id);
    let listed = match world.seen.keys.get(&place.place) {
        None => return Err(Next::step(Step::Keys(place, MaxAge::Since(world.began)))),
        Some(Err(hindrance)) => {
            draft.hinder_at(world, &old.key, hindrance);
            return Ok(false);
        }
        Some(Ok(listed)) => listed,
    };
    let found = named(listed, &old.key.name);
    let made = found.is_some_and(|found| ours(world, &old.key, found));
    let late = elapsed(&old.retired, world.now) >= LATE;
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
pub(super) fn taken(world: &Observed, draft: &mut Draft, key: &KeyRecord) -> Course<bool> {
    if key.id.is_none() {
        return Ok(false);
    }
    let place = BoundKeyScope::new(&key.binding, &key.organization_id);
    let found = match world.seen.daemons.get(&place.place) {
        // One from before a rate limit says no more than that of keys.
        Some(Ok(listed)) if world.instant.saturating_duration_since(listed.at) < SOON => {
            let mut all = listed.value.iter().map(|it| &it.key);
            all.find(|it| it.name == key.name)
        }
        _ => match world.seen.keys.get(&place.place) {
            None => {
                let fresh = MaxAge::Within(SOON - NEARLY);
                return Err(Next::step(Step::Keys(place, fresh)));
            }
            Some(Err(_)) => return Ok(false),
            Some(Ok(listed)) => named(listed, &key.name),
        },
    };
    let another = found.is_some_and(|found| is_another(key, found));
    if another {
        draft.status.retiring.retain(|it| it.key != *key);
        draft.note_foreign(&key.name);
    }
    Ok(another)
}

/// A server that could not be reached for as long as a deletion may take is not waited for.
fn overdue(world: &Observed, old: &RetiringKey) -> bool {
    elapsed(&old.retired, world.now) >= world.object.spec.deletion_deadline.0
}

/// Whether an old key may go.
fn idle(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Course<bool> {
    if !old.used {
        return unverified(world, draft, old);
    }
    if !succeeded(world, draft) {
        return Ok(false);
    }
    let replaced = replaced(world, draft, old);
    if replaced.is_some_and(|since| elapsed(&since, world.now) >= grace(world)) {
        return Ok(true);
    }
    let place = BoundKeyScope::new(&old.key.binding, &old.key.organization_id);
    match world.seen.daemons.get(&place.place) {
        None => Err(Next::step(Step::Daemons(
            place,
            MaxAge::Within(SOON - NEARLY),
        ))),
        Some(Ok(listed)) => Ok(online(&listed.value, &old.key.name) == 0),
        Some(Err(hindrance)) => {
            draft.hinder_at(world, &old.key, hindrance);
            Ok(false)
        }
    }
}

/// Whether the key in use has every daemon that is wanted.
fn succeeded(world: &Observed, draft: &Draft) -> bool {
    let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
    draft.connected.is_some_and(|connected| connected >= wanted)
}

/// Since when pods of an old key are on their way out: their grace runs from there, and not from when the
/// new key was made, since new pods may take any time to come.
fn replaced(world: &Observed, draft: &mut Draft, old: &RetiringKey) -> Option<Time> {
    let over = world.deployment.as_ref().is_none_or(|it| it.rolled);
    let entry = draft
        .status
        .retiring
        .iter_mut()
        .find(|it| it.key == old.key)?;
    if over {
        entry.replaced.get_or_insert_with(|| seconds(world.now));
    }
    entry.replaced.clone()
}

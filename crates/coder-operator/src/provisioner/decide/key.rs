//! The key in use: which one it is, whether it is still there, and the way to a new one.

use std::time::Duration;

use aplomb::EventNote;
use aplomb_api::coder::{CoderProvisionerStatus, KeyRecord, RotationStatus, conditions, is_owned_key_name, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::desired::{DesiredKey, RotationReason, requested_rotation};
use super::plan_builder::{Course, Draft, Next, Stop};
use super::{KEY_LIST_MAX_AGE, tags_hash};
use crate::access::Access;
use crate::children_state::SecretState;
use crate::client::{CallErrorClass, Organization, ProvisionerKey};
use crate::conditions::{add_span, whole_seconds};
use crate::provisioner::{BoundKeyScope, Observed, Step};
use crate::server::{MaxAge, Timestamped};

/// How far the server's clock, which tells whole seconds, may be off from what it wrote.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

/// The key in use, once there is one that fits.
pub(super) fn decide_key(
    world: &Observed,
    draft: &mut Draft,
    access: &Access,
    organization: &Organization,
) -> Course<KeyRecord> {
    let wanted = DesiredKey::new(world, access, organization);
    if let Some(pending) = draft.status.pending.clone() {
        complete_pending(world, draft, &wanted, &pending)?;
    }
    rebind_records(draft, access);
    let list = list_keys(world, draft, &wanted)?;
    let why = match &draft.status.key {
        None if !world.secret_kept => return Err(Stop::SecretNotKept.into()),
        None => adopt_key(world, draft, &wanted, list),
        Some(key) => rotation_reason(world, key, &draft.status.rotation, &wanted, list),
    };
    match (why, draft.status.key.clone()) {
        (None, Some(key)) => Ok(update_names(draft, &wanted, key)),
        (Some(RotationReason::ServerChanged), Some(key)) if same_server(&key, list) => {
            Ok(update_names(draft, &wanted, key))
        }
        (why, _) => Err(record_intent(
            world,
            draft,
            &wanted,
            why.unwrap_or(RotationReason::First),
            list,
        )),
    }
}

/// A name is written down. Either its key is in the Secret, or it is to be asked for, or it was
/// asked for by a process that ended before the response.
fn complete_pending(world: &Observed, draft: &mut Draft, wanted: &DesiredKey<'_>, pending: &KeyRecord) -> Course<()> {
    if secret_holds(world, &pending.name) {
        draft.promote_key(&pending.name, pending.since.0, world);
        return Ok(());
    }
    if world.remembered.unsaved_key.as_ref() == Some(&pending.name) {
        return Err(Next::step(Step::Store(pending.clone())));
    }
    let fits = wanted.matches_pending(pending, &draft.status);
    if world.remembered.unrequested_name.as_ref() == Some(&pending.name) {
        return match fits {
            true => Err(request_key(world, draft, pending)),
            false => {
                draft.status.pending = None;
                Ok(())
            }
        };
    }
    let Some(found) = find_key(world, draft, pending)? else {
        if fits {
            return Err(request_key(world, draft, pending));
        }
        // An answer that was lost may be on its way: it is looked for a while longer.
        draft.status.pending = None;
        draft.retire_key(pending.clone(), false, world);
        return Ok(());
    };
    draft.status.pending = None;
    if is_own_key(world, pending, &found) {
        // The plaintext is lost.
        let key = KeyRecord {
            id: found.known_id(),
            ..pending.clone()
        };
        draft.retire_key(key, false, world);
    } else {
        draft.note_foreign(&pending.name);
    }
    Err(Next::Persist)
}

/// The key that a record names, as the server has it now. A server that cannot be asked any more keeps
/// its record until it can, or until the deadline.
fn find_key(world: &Observed, draft: &mut Draft, pending: &KeyRecord) -> Course<Option<ProvisionerKey>> {
    let place = BoundKeyScope::new(&pending.binding, &pending.organization_id);
    if !world.bound_scopes.contains(&place.place) {
        draft.status.pending = None;
        draft.retire_key(pending.clone(), false, world);
        return Err(Next::Persist);
    }
    match world.progress.keys.get(&place.place) {
        None => Err(Next::step(Step::Keys(place, MaxAge::Since(world.pass_started)))),
        Some(Err(hindrance)) => Err(Stop::Blocked(hindrance.clone()).into()),
        Some(Ok(listed)) => Ok(find_by_name(listed, &pending.name).cloned()),
    }
}

/// Whether a key of the pending name is the one that was asked for. Its name bears the mark of this
/// object, which no person, other object or other cluster takes for a key; and it was made after
/// the name was written down, with the same tags. The creation time alone proves nothing.
pub(super) fn is_own_key(world: &Observed, pending: &KeyRecord, found: &ProvisionerKey) -> bool {
    let tags = found.tags.clone().unwrap_or_default();
    let made = whole_seconds(found.created_at);
    is_owned_key_name(&pending.name, &world.object.uid().unwrap_or_default())
        && add_span(&made, CLOCK_SLACK) >= pending.since.0
        && tags_hash(&tags) == pending.tags_hash
        && !world.foreign_claims.contains(&pending.name)
}

fn request_key(world: &Observed, draft: &mut Draft, pending: &KeyRecord) -> Next {
    let first_time = world.remembered.unrequested_name.as_ref() == Some(&pending.name);
    match &world.progress.create_blocked {
        None => Next::step(Step::Create(pending.clone())),
        // A request of an earlier process may have been served only now: a list will show.
        Some(hindrance) if hindrance.class() == Some(CallErrorClass::Exists) && !first_time => Next::Persist,
        Some(hindrance) if hindrance.class() == Some(CallErrorClass::Exists) => {
            draft.status.pending = None;
            match draft.status.key {
                // Another number will do.
                Some(_) => {
                    draft.note_foreign(&pending.name);
                    Next::Persist
                }
                None => reject_foreign_key(world, draft, &pending.name),
            }
        }
        Some(hindrance) => Stop::Blocked(hindrance.clone()).into(),
    }
}

fn reject_foreign_key(world: &Observed, draft: &mut Draft, name: &str) -> Next {
    let said = |it: &Condition| it.type_ == conditions::KEY_READY && it.reason == reasons::KEY_FOREIGN;
    if !world.status.conditions.iter().any(said) {
        draft.note_foreign(name);
    }
    let story = format!(
        "key {name} exists or is about to be made for another object: choose another \
         spec.key.name, or delete that key"
    );
    Stop::rejected(reasons::KEY_FOREIGN, story).into()
}

/// A token that was replaced speaks for the same server: what is bound to it is reached with the new one.
pub(super) fn rebind_records(draft: &mut Draft, access: &Access) {
    let retiring = draft.status.retiring.iter_mut().map(|it| &mut it.key);
    let all = retiring.chain(&mut draft.status.key);
    for key in all.filter(|it| it.binding.server_url == access.url) {
        key.binding = access.binding.clone();
    }
}

/// The keys of the organization. Without a list a key in use stays in use.
fn list_keys<'a>(
    world: &'a Observed,
    draft: &mut Draft,
    wanted: &DesiredKey<'_>,
) -> Course<Option<&'a Timestamped<Vec<ProvisionerKey>>>> {
    let place = BoundKeyScope::new(&wanted.access.binding, &wanted.organization.id);
    match world.progress.keys.get(&place.place) {
        None => Err(Next::step(Step::Keys(place, KEY_LIST_MAX_AGE))),
        Some(Ok(listed)) => Ok(Some(listed)),
        Some(Err(hindrance)) if draft.status.key.is_some() => {
            draft.record_blocked(hindrance);
            Ok(None)
        }
        Some(Err(hindrance)) => Err(Stop::Blocked(hindrance.clone()).into()),
    }
}

/// Why the key in use will not do.
fn rotation_reason(
    world: &Observed,
    key: &KeyRecord,
    rotation: &RotationStatus,
    wanted: &DesiredKey<'_>,
    list: Option<&Timestamped<Vec<ProvisionerKey>>>,
) -> Option<RotationReason> {
    if let Some(drift) = wanted.rotation_reason(key, rotation, world) {
        return Some(drift);
    }
    let told = list.filter(|it| it.server_time > add_span(&key.since, CLOCK_SLACK));
    if told.is_some_and(|list| find_by_name(list, &key.name).is_none_or(|it| is_replaced(key, it))) {
        return Some(RotationReason::KeyVanished);
    }
    (!secret_holds(world, &key.name)).then_some(RotationReason::SecretLost)
}

/// Takes over a key whose plaintext a Secret of the right name already holds.
fn adopt_key(
    world: &Observed,
    draft: &mut Draft,
    wanted: &DesiredKey<'_>,
    list: Option<&Timestamped<Vec<ProvisionerKey>>>,
) -> Option<RotationReason> {
    let SecretState::Owned {
        key_name: Some(name),
        intact: true,
        ..
    } = &world.secret
    else {
        return Some(RotationReason::First);
    };
    let Some(found) = list.and_then(|list| find_by_name(list, name)) else {
        return Some(RotationReason::First);
    };
    // A Secret can name any key: one that another object uses is not adopted.
    if world.foreign_claims.contains(name) {
        draft.note_foreign(name);
        return Some(RotationReason::First);
    }
    let mut key = new_record(world, wanted, name);
    key.id = found.known_id();
    key.since = whole_seconds(found.created_at);
    key.tags_hash = tags_hash(&found.tags.clone().unwrap_or_default());
    draft.status.rotation.honoured = requested_rotation(world);
    let drift = wanted
        .rotation_reason(&key, &draft.status.rotation, world)
        .filter(|it| *it != RotationReason::Requested);
    draft.status.key = Some(key);
    drift
}

/// The server has the key under another URL too: it is the same server.
fn same_server(key: &KeyRecord, list: Option<&Timestamped<Vec<ProvisionerKey>>>) -> bool {
    let known = |it: &ProvisionerKey| Some(&it.id) == key.id.as_ref();
    list.is_some_and(|list| list.value.iter().any(known))
}

/// Keeps what the server and the organization are called now.
fn update_names(draft: &mut Draft, wanted: &DesiredKey<'_>, mut key: KeyRecord) -> KeyRecord {
    key.binding = wanted.access.binding.clone();
    key.organization_name = draft.status.organization_name.clone().unwrap_or_default();
    draft.status.key = Some(key.clone());
    key
}

/// Writes down the name of the key that comes next.
fn record_intent(
    world: &Observed,
    draft: &mut Draft,
    wanted: &DesiredKey<'_>,
    why: RotationReason,
    list: Option<&Timestamped<Vec<ProvisionerKey>>>,
) -> Next {
    let Some(list) = list else {
        // Which names are taken is not known, and the key in use still works.
        let unknown = draft.blocked.last().cloned();
        return unknown.map_or(Next::Persist, |it| Stop::Blocked(it).into());
    };
    if !world.secret_kept {
        return Stop::SecretNotKept.into();
    }
    let (number, name) = match next_name(world, &draft.status, wanted, list) {
        Ok(next) => next,
        Err(taken) => return reject_foreign_key(world, draft, &taken),
    };
    if why == RotationReason::KeyVanished {
        replace_vanished(draft, world);
    }
    draft.notes.push(EventNote::normal(
        "KeyPending",
        "Create",
        format!("creating key {name}: {}", why.description()),
    ));
    let mut pending = new_record(world, wanted, &name);
    // By the server's clock, which is what its keys are dated by.
    let since = world.instant.saturating_duration_since(list.requested_at);
    pending.since = whole_seconds(add_span(&whole_seconds(list.server_time), since));
    draft.status.pending = Some(pending);
    let rotation = &mut draft.status.rotation;
    rotation.sequence = number;
    rotation.asked = requested_rotation(world);
    rotation.reason = Some(why.as_str().to_owned());
    Next::Persist
}

/// The number and the name of the next key; the error is a first name that is taken.
fn next_name(
    world: &Observed,
    status: &CoderProvisionerStatus,
    wanted: &DesiredKey<'_>,
    list: &Timestamped<Vec<ProvisionerKey>>,
) -> Result<(u32, String), String> {
    let sequence = status.rotation.sequence;
    let first = status.key.is_none() && status.rotation.last.is_none() && status.retiring.is_empty();
    let taken = |name: &String| {
        let retiring = status.retiring.iter().any(|it| it.key.name == *name);
        retiring || find_by_name(list, name).is_some() || world.foreign_claims.contains(name)
    };
    // One that the Secret says it holds would be taken for made before it is asked for.
    let held = |name: &String| matches!(&world.secret, SecretState::Owned { key_name: Some(it), .. } if it == name);
    let retiring = status.retiring.first().map(|it| &it.key);
    let mut number = match status.key.as_ref().or(retiring) {
        Some(key) if wanted.is_own_name(&key.name, sequence) => sequence + 1,
        _ => 0,
    };
    loop {
        let name = wanted.key_name(number);
        if !held(&name) && (first || !taken(&name)) {
            let foreign = first && taken(&name);
            return if foreign { Err(name) } else { Ok((number, name)) };
        }
        number += 1;
    }
}

/// Puts the key that was deleted on the server out of use.
fn replace_vanished(draft: &mut Draft, world: &Observed) {
    let Some(old) = draft.status.key.take() else {
        return;
    };
    draft.notes.push(EventNote::warning(
        "KeyVanished",
        "Heal",
        format!("key {} was deleted on the server; replacing it", old.name),
    ));
    // Should the list have been wrong, it still goes in its turn.
    draft.retire_key(old, true, world);
}

fn new_record(world: &Observed, wanted: &DesiredKey<'_>, name: &str) -> KeyRecord {
    KeyRecord {
        name: name.to_owned(),
        id: None,
        organization_id: wanted.organization.id.clone(),
        organization_name: world.object.spec.organization_name.clone(),
        tags_hash: wanted.tags_hash.clone(),
        since: whole_seconds(world.now),
        binding: wanted.access.binding.clone(),
    }
}

/// Whether the Secret holds the key of this name.
pub(super) fn secret_holds(world: &Observed, name: &str) -> bool {
    let made = world.progress.created.as_ref().is_some_and(|(made, _)| made == name);
    let stored = matches!(&world.secret, SecretState::Owned { key_name: Some(held), intact: true, .. } if held == name);
    made || stored
}

pub(super) fn find_by_name<'a>(list: &'a Timestamped<Vec<ProvisionerKey>>, name: &str) -> Option<&'a ProvisionerKey> {
    list.value.iter().find(|it| it.name == name)
}

/// Whether a key that the server has under the name of a record is another one: ours was deleted,
/// and one with its name was created.
pub(super) fn is_replaced(key: &KeyRecord, found: &ProvisionerKey) -> bool {
    let (ours, theirs) = (key.id.as_ref(), found.known_id());
    ours.is_some() && theirs.is_some() && ours != theirs.as_ref()
}

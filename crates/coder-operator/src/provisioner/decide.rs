//! From what is known of a CoderProvisioner to its one next step, and to what is said of it. Pure.
//!
//! A key is never deleted before the one that replaces it is in use, and never asked for before its
//! name is written down. The key of a name in the status can be found again after a crash.

mod conditions;
mod deletion;
mod desired;
mod key;
mod plan_builder;

#[cfg(test)]
mod tests;

use std::time::Duration;

use aplomb_api::coder::{FINALIZER, KeyRecord, reasons};
use kube::ResourceExt;

use super::{BoundKeyScope, Children, KeyScope, Observed, Plan, Step};
use crate::access::Access;
use crate::blocked::PERMANENT_RETRY;
use crate::children_state::SecretState;
use crate::client::{CallErrorClass, Entitlement, Organization};
use crate::conditions::{elapsed, whole_seconds};
use crate::server::MaxAge;

pub(crate) use self::desired::{candidate_names, secret_ref, tags_hash};
use plan_builder::{Course, Draft, Next, Stop};

/// How old the list may be that shows whether a key is still there.
const KEY_LIST_MAX_AGE: MaxAge = MaxAge::Within(Duration::from_secs(300));
/// How soon daemons are looked for when one begins to be waited for.
const FIRST_POLL: Duration = Duration::from_secs(2);
/// How often while one is waited for.
const WAITING_POLL: Duration = Duration::from_secs(5);
/// And while all are there.
const STEADY_POLL: Duration = Duration::from_secs(60);
/// A list that is this much younger is not worth another look.
const AGE_TOLERANCE: Duration = Duration::from_secs(1);
/// How long pods may run without being connected before they are started again.
const STUCK_AFTER: Duration = Duration::from_secs(300);
/// How long they are left alone after that.
const RESTART_BACKOFF: Duration = Duration::from_secs(900);

/// The next step, and what is to be said meanwhile.
pub(crate) fn decide(world: &Observed) -> Plan {
    let mut draft = Draft::new(world);
    let ended = match world.object.metadata.deletion_timestamp.is_some() {
        true => deletion::decide_deletion(world, &mut draft),
        false => run_course(world, &mut draft),
    };
    plan_builder::build_plan(world, draft, ended)
}

fn run_course(world: &Observed, draft: &mut Draft) -> Course<()> {
    if !draft.has_finalizer(world) {
        return Err(Next::step(Step::Finalize));
    }
    let access = world.access.as_ref().map_err(|_| Next::from(Stop::NoAccess))?;
    draft.status.control_plane_url = Some(access.url.clone());
    draft.status.control_plane_ref_name = access.control_plane.clone();
    let image = require_image(world, access)?;
    if let SecretState::Foreign(whose) = &world.secret {
        return Err(Stop::rejected(reasons::SECRET_NOT_OURS, whose.clone()).into());
    }
    check_entitlement(world, draft)?;
    let organization = find_organization(world, draft, access)?;
    draft.status.organization_id = Some(organization.id.clone());
    draft.status.organization_name = Some(world.object.spec.organization_name.clone());
    let key = match key::decide_key(world, draft, access, &organization) {
        // What works is kept as it should be, whatever becomes of the key that replaces it.
        Err(Next::Stop(stop)) => match working_key(world, draft, access) {
            Some(key) => {
                draft.deferred_stop = Some(stop);
                key
            }
            None => return Err(Next::Stop(stop)),
        },
        course => course?,
    };
    let children = apply_children(world, draft, access, image, &key);
    if !world.progress.applied {
        return Err(Next::step(Step::Apply(children)));
    }
    count_daemons(world, draft, &key)?;
    deletion::decide_retirement(world, draft)?;
    restart_pods(world, draft)?;
    draft.deferred_stop.take().map_or(Ok(()), |stop| Err(Next::Stop(stop)))
}

/// The key in use, if it works where the daemons are to connect.
fn working_key(world: &Observed, draft: &Draft, access: &Access) -> Option<KeyRecord> {
    let key = draft.status.key.clone()?;
    let here = key.binding.server_url == access.url;
    (here && key::secret_holds(world, &key.name)).then_some(key)
}

fn require_image(world: &Observed, access: &Access) -> Course<String> {
    let own = world.object.spec.image.clone();
    own.or_else(|| access.image.clone()).ok_or_else(|| {
        let fix = match &access.control_plane {
            Some(name) => format!("set spec.image here or on CoderControlPlane {name}"),
            None => "set spec.image".to_owned(),
        };
        Stop::rejected(reasons::IMAGE_MISSING, format!("no image is set: {fix}")).into()
    })
}

fn check_entitlement(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(looked) = &world.progress.entitlements else {
        return Err(Next::step(Step::Entitlements));
    };
    match looked {
        Ok(listed) if listed.value.provisioners.entitlement == Entitlement::NotEntitled => {
            Err(Stop::NotEntitled.into())
        }
        Ok(_) => {
            draft.entitled = true;
            Ok(())
        }
        Err(hindrance) if hindrance.class() == Some(CallErrorClass::Missing) => Err(Stop::NotSupported.into()),
        Err(hindrance) => {
            draft.entitlement_refusal = hindrance.class();
            // Keys that are there work on, and a lasting refusal will meet the next call as well.
            if world.status.key.is_some() && hindrance.is_transient() {
                draft.record_blocked(hindrance);
                return Ok(());
            }
            Err(Stop::Blocked(hindrance.clone()).into())
        }
    }
}

fn find_organization(world: &Observed, draft: &mut Draft, access: &Access) -> Course<Organization> {
    match &world.progress.organization {
        None => Err(Next::step(Step::Organization)),
        Some(Ok(found)) => Ok(found.clone()),
        Some(Err(hindrance)) if hindrance.class() == Some(CallErrorClass::Missing) => Err(Stop::NoOrganization.into()),
        Some(Err(hindrance)) => {
            let known = known_organization(world, access).filter(|_| hindrance.is_transient());
            let known = known.ok_or_else(|| Next::from(Stop::Blocked(hindrance.clone())))?;
            draft.record_blocked(hindrance);
            Ok(known)
        }
    }
}

/// The organization of the key in use, if it is still the one that is asked for: children are kept as they
/// should be although the server cannot be asked.
fn known_organization(world: &Observed, access: &Access) -> Option<Organization> {
    let name = &world.object.spec.organization_name;
    let key = world.status.key.as_ref()?;
    let same = key.organization_name == *name && key.binding.server_url == access.url;
    same.then(|| Organization {
        id: key.organization_id.clone(),
        name: name.clone(),
    })
}

fn apply_children(world: &Observed, draft: &Draft, access: &Access, image: String, key: &KeyRecord) -> Children {
    let settled = draft.status.retiring.is_empty() && world.status.disconnected_since.is_none();
    Children {
        url: access.url.clone(),
        image,
        secret: secret_ref(&world.object),
        key_name: key.name.clone(),
        ca: access.ca.clone(),
        restarted: draft.status.restarted.as_ref().map(|it| it.0.to_string()),
        prune: settled && draft.status.daemons.is_some(),
    }
}

/// Counts the daemons that the server sees connected, with the key in use and with those it replaces.
fn count_daemons(world: &Observed, draft: &mut Draft, key: &KeyRecord) -> Course<()> {
    let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
    let place = BoundKeyScope::new(&key.binding, &key.organization_id);
    if wanted == 0 {
        // No daemons are looked for, which would tell what the server calls the key.
        let keys = world.progress.keys.get(&place.place).and_then(|it| it.as_ref().ok());
        if let Some(found) = keys.and_then(|it| key::find_by_name(it, &key.name)) {
            draft.record_key_id(found);
        }
        draft.count_daemons(world, 0, 0);
        return Ok(());
    }
    let pace = poll_interval(world, draft);
    let listed = match world.progress.daemons.get(&place.place) {
        None => {
            return Err(Next::step(Step::Daemons(place, MaxAge::Within(pace - AGE_TOLERANCE))));
        }
        Some(Err(hindrance)) => {
            draft.record_blocked(hindrance);
            return Ok(());
        }
        Some(Ok(listed)) => listed,
    };
    if let Some(found) = listed.value.iter().find(|it| it.key.name == key.name) {
        draft.record_key_id(&found.key);
    }
    let connected = deletion::connected_daemons(&listed.value, &key.name);
    let old = draft.status.retiring.iter().filter(|it| it.used);
    let here = old.filter(|it| KeyScope::for_key(&it.key) == place.place);
    let serving = here.map(|it| deletion::connected_daemons(&listed.value, &it.key.name));
    // Those that have stopped are shown for a while yet.
    let serving = (connected + serving.sum::<u32>()).min(wanted).max(connected);
    draft.count_daemons(world, connected, serving);
    draft.requeue_within(if connected >= wanted { STEADY_POLL } else { pace });
    Ok(())
}

/// How often daemons are looked for: soon after one is missed, more rarely the longer it takes.
fn poll_interval(world: &Observed, draft: &Draft) -> Duration {
    let changed = draft.status.key.as_ref().map(|it| &it.since);
    let since = world.status.disconnected_since.as_ref().or(changed);
    match world.status.disconnected_since.is_none() && draft.is_idle(world) {
        true => STEADY_POLL,
        false => since
            .map_or(WAITING_POLL, |it| elapsed(it, world.now) / 2)
            .clamp(FIRST_POLL, WAITING_POLL),
    }
}

/// Starts pods again that run and are not connected: a daemon whose key was refused once stays so.
fn restart_pods(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(since) = &draft.status.disconnected_since else {
        return Ok(());
    };
    let running = world
        .deployment
        .as_ref()
        .is_some_and(|it| it.ready >= world.object.spec.replicas);
    let over = |since: &Option<_>, span| since.as_ref().is_none_or(|it| elapsed(it, world.now) >= span);
    let stuck = elapsed(since, world.now) >= STUCK_AFTER;
    if running && stuck && over(&draft.status.restarted, RESTART_BACKOFF) {
        draft.status.restarted = Some(whole_seconds(world.now));
        draft.note_restart();
        return Err(Next::Persist);
    }
    Ok(())
}

pub(super) fn has_finalizer(world: &Observed) -> bool {
    world.object.finalizers().iter().any(|it| it == FINALIZER)
}

//! From what is known of a CoderProvisioner to its one next step, and to what is said of it. Pure.
//!
//! A key is never deleted before the one that replaces it is in use, and never asked for before its
//! name is written down. The key of a name in the status can be found again after a crash.

mod draft;
mod farewell;
mod key;
mod outcome;
mod retire;
mod said;
mod wanted;

#[cfg(test)]
mod tests;

use std::time::Duration;

use aplomb_api::coder::{FINALIZER, KeyRecord, reasons};

use super::world::{BoundKeyScope, Children, KeyScope, Observed, Plan, Step};
use crate::access::Access;
use crate::client::{CallErrorClass, Entitlement, Organization};
use crate::ending::SELDOM;
use crate::seen::SecretState;
use crate::server::MaxAge;
use crate::times::{elapsed, seconds};

pub(crate) use self::wanted::{names, secret_ref, tags_hash};
use draft::{Course, Draft, Next, Stop};

/// How old the list may be that shows whether a key is still there.
const LIVENESS: MaxAge = MaxAge::Within(Duration::from_secs(300));
/// How soon daemons are looked for when one begins to be waited for.
const FIRST: Duration = Duration::from_secs(2);
/// How often while one is waited for.
const SOON: Duration = Duration::from_secs(5);
/// And while all are there.
const STEADY: Duration = Duration::from_secs(60);
/// A list that is this much younger is not worth another look.
const NEARLY: Duration = Duration::from_secs(1);
/// How long pods may run without being connected before they are started again.
const STUCK: Duration = Duration::from_secs(300);
/// How long they are left alone after that.
const PATIENCE: Duration = Duration::from_secs(900);

/// The next step, and what is to be said meanwhile.
pub(crate) fn decide(world: &Observed) -> Plan {
    let mut draft = Draft::new(world);
    let ended = match world.object.metadata.deletion_timestamp.is_some() {
        true => farewell::course(world, &mut draft),
        false => course(world, &mut draft),
    };
    outcome::conclude(world, draft, ended)
}

fn course(world: &Observed, draft: &mut Draft) -> Course<()> {
    if !draft.finalized(world) {
        return Err(Next::step(Step::Finalize));
    }
    let access = world
        .access
        .as_ref()
        .map_err(|_| Next::from(Stop::Denied))?;
    draft.status.control_plane_url = Some(access.url.clone());
    draft.status.control_plane_ref_name = access.control_plane.clone();
    let image = image(world, access)?;
    if let SecretState::Foreign(whose) = &world.secret {
        return Err(Stop::rejected(reasons::SECRET_NOT_OURS, whose.clone()).into());
    }
    entitled(world, draft)?;
    let organization = organization(world, draft, access)?;
    draft.status.organization_id = Some(organization.id.clone());
    draft.status.organization_name = Some(world.object.spec.organization_name.clone());
    let key = match key::course(world, draft, access, &organization) {
        // What works is kept as it should be, whatever becomes of the key that replaces it.
        Err(Next::Stop(stop)) => match working(world, draft, access) {
            Some(key) => {
                draft.held = Some(stop);
                key
            }
            None => return Err(Next::Stop(stop)),
        },
        course => course?,
    };
    let children = children(world, draft, access, image, &key);
    if !world.seen.applied {
        return Err(Next::step(Step::Apply(children)));
    }
    daemons(world, draft, &key)?;
    retire::course(world, draft)?;
    restart(world, draft)?;
    draft
        .held
        .take()
        .map_or(Ok(()), |stop| Err(Next::Stop(stop)))
}

/// The key in use, if it works where the daemons are to connect.
fn working(world: &Observed, draft: &Draft, access: &Access) -> Option<KeyRecord> {
    let key = draft.status.key.clone()?;
    let here = key.binding.server_url == access.url;
    (here && key::holds(world, &key.name)).then_some(key)
}

fn image(world: &Observed, access: &Access) -> Course<String> {
    let own = world.object.spec.image.clone();
    own.or_else(|| access.image.clone()).ok_or_else(|| {
        let fix = match &access.control_plane {
            Some(name) => format!("set spec.image here or on CoderControlPlane {name}"),
            None => "set spec.image".to_owned(),
        };
        Stop::rejected(reasons::IMAGE_MISSING, format!("no image is set: {fix}")).into()
    })
}

fn entitled(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(looked) = &world.seen.entitlements else {
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
        Err(hindrance) if hindrance.class() == Some(CallErrorClass::Missing) => {
            Err(Stop::NotSupported.into())
        }
        Err(hindrance) => {
            draft.unentitled = hindrance.class();
            // Keys that are there work on, and a lasting refusal will meet the next call as well.
            if world.status.key.is_some() && hindrance.passes() {
                draft.hinder(hindrance);
                return Ok(());
            }
            Err(Stop::Hindered(hindrance.clone()).into())
        }
    }
}

fn organization(world: &Observed, draft: &mut Draft, access: &Access) -> Course<Organization> {
    match &world.seen.organization {
        None => Err(Next::step(Step::Organization)),
        Some(Ok(found)) => Ok(found.clone()),
        Some(Err(hindrance)) if hindrance.class() == Some(CallErrorClass::Missing) => {
            Err(Stop::NoOrganization.into())
        }
        Some(Err(hindrance)) => {
            let known = known_organization(world, access).filter(|_| hindrance.passes());
            let known = known.ok_or_else(|| Next::from(Stop::Hindered(hindrance.clone())))?;
            draft.hinder(hindrance);
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

fn children(
    world: &Observed,
    draft: &Draft,
    access: &Access,
    image: String,
    key: &KeyRecord,
) -> Children {
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
fn daemons(world: &Observed, draft: &mut Draft, key: &KeyRecord) -> Course<()> {
    let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
    let place = BoundKeyScope::new(&key.binding, &key.organization_id);
    if wanted == 0 {
        // No daemons are looked for, which would tell what the server calls the key.
        let keys = world.seen.keys.get(&place.place);
        let keys = keys.and_then(|it| it.as_ref().ok());
        if let Some(found) = keys.and_then(|it| key::named(it, &key.name)) {
            draft.identify(found);
        }
        draft.count(world, 0, 0);
        return Ok(());
    }
    let pace = pace(world, draft);
    let listed = match world.seen.daemons.get(&place.place) {
        None => {
            return Err(Next::step(Step::Daemons(
                place,
                MaxAge::Within(pace - NEARLY),
            )));
        }
        Some(Err(hindrance)) => {
            draft.hinder(hindrance);
            return Ok(());
        }
        Some(Ok(listed)) => listed,
    };
    if let Some(found) = listed.value.iter().find(|it| it.key.name == key.name) {
        draft.identify(&found.key);
    }
    let connected = retire::online(&listed.value, &key.name);
    let old = draft.status.retiring.iter().filter(|it| it.used);
    let here = old.filter(|it| KeyScope::of(&it.key) == place.place);
    let serving = here.map(|it| retire::online(&listed.value, &it.key.name));
    // Those that have stopped are shown for a while yet.
    let serving = (connected + serving.sum::<u32>())
        .min(wanted)
        .max(connected);
    draft.count(world, connected, serving);
    draft.again(if connected >= wanted { STEADY } else { pace });
    Ok(())
}

/// How often daemons are looked for: soon after one is missed, more rarely the longer it takes.
fn pace(world: &Observed, draft: &Draft) -> Duration {
    let changed = draft.status.key.as_ref().map(|it| &it.since);
    let since = world.status.disconnected_since.as_ref().or(changed);
    match world.status.disconnected_since.is_none() && draft.calm(world) {
        true => STEADY,
        false => {
            let waited = since.map_or(SOON, |it| elapsed(it, world.now) / 2);
            waited.clamp(FIRST, SOON)
        }
    }
}

/// Starts pods again that run and are not connected: a daemon whose key was refused once stays so.
fn restart(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(since) = &draft.status.disconnected_since else {
        return Ok(());
    };
    let running = world
        .deployment
        .as_ref()
        .is_some_and(|it| it.ready >= world.object.spec.replicas);
    let over = |since: &Option<_>, span| {
        since
            .as_ref()
            .is_none_or(|it| elapsed(it, world.now) >= span)
    };
    let stuck = elapsed(since, world.now) >= STUCK;
    if running && stuck && over(&draft.status.restarted, PATIENCE) {
        draft.status.restarted = Some(seconds(world.now));
        draft.note_restart();
        return Err(Next::Persist);
    }
    Ok(())
}

/// Whether the object has our finalizer.
pub(super) fn holds(world: &Observed) -> bool {
    let all = world.object.metadata.finalizers.iter().flatten();
    all.into_iter().any(|it| it == FINALIZER)
}

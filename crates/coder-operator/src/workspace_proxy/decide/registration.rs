//! The registration in use: which one it is, whether it is still there, and the way to a new one.

use std::time::Duration;

use aplomb::EventNote;
use aplomb_api::coder::{PendingProxy, ServerBinding, conditions, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::deletion::{POD_LINGER, is_queued};
use super::desired::{display_key, is_marked, is_marked_by_other, proxy_display, requested_rotation};
use super::plan_builder::{Course, Draft, Next, Stop};
use super::{AGE_TOLERANCE, STEADY_MAX_AGE, WAITING_MAX_AGE, has_stored_token};
use crate::access::Access;
use crate::children_state::SecretState;
use crate::client::{CallErrorClass, ProxyDisplay, WorkspaceProxy};
use crate::conditions::{add_span, elapsed, whole_seconds};
use crate::server::{MaxAge, Timestamped};
use crate::workspace_proxy::{Observed, ProxyRegistration, ProxyScope, Step};

/// How far the server's clock, which tells whole seconds, may be off from what it wrote.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

/// The registration in use, once there is one that fits and whose token is in the Secret.
pub(super) fn decide_registration(world: &Observed, draft: &mut Draft, access: &Access) -> Course<ProxyRegistration> {
    let wanted = proxy_display(&world.object);
    if let Some(pending) = draft.status.pending.clone() {
        complete_pending(world, draft, &wanted, access, &pending)?;
    }
    rebind_records(draft, access);
    let Some(current) = draft.current() else {
        if !world.secret_kept {
            return Err(Stop::SecretNotKept.into());
        }
        return match adopt_proxy(world, draft, &wanted, access)? {
            Some(adopted) => Ok(adopted),
            None => Err(record_intent(world, draft, &wanted, access, "First")),
        };
    };
    if current.binding.server_url != access.url && !same_server(world, draft, access, &current)? {
        return Err(record_intent(world, draft, &wanted, access, "ServerChanged"));
    }
    if current.name != wanted.name {
        return Err(record_intent(world, draft, &wanted, access, "NameChanged"));
    }
    check_registered(world, draft, &current)?;
    ensure_token(world, draft, &current)?;
    let told = display_key(&wanted.name, &wanted.display_name, &wanted.icon);
    if draft.status.described.as_ref() != Some(&told) {
        return Err(run_unless_blocked(world, Step::PatchDisplay(current)));
    }
    Ok(current)
}

/// What the server says of a proxy, by name or id.
pub(super) fn lookup_proxy<'a>(
    world: &'a Observed,
    binding: &ServerBinding,
    name: &str,
    fresh: MaxAge,
) -> Course<&'a Timestamped<Option<WorkspaceProxy>>> {
    let place = (ProxyScope::for_binding(binding), name.to_owned());
    match world.progress.proxies.get(&place) {
        None => Err(Next::step(Step::Read(binding.clone(), place.1, fresh))),
        Some(Ok(listed)) => Ok(listed),
        Some(Err(hindrance)) => Err(Stop::Blocked(hindrance.clone()).into()),
    }
}

/// Has an effect, unless this pass has met a hindrance. A proxy that is gone is found to be so next time.
fn run_unless_blocked(world: &Observed, step: Step) -> Next {
    match &world.progress.blocked {
        None => Next::step(step),
        Some(hindrance) => Stop::Blocked(hindrance.clone()).into(),
    }
}

/// A name is written down. Either its token is in the Secret, or it is to be registered, or it was
/// registered by a process that ended before the response.
fn complete_pending(
    world: &Observed,
    draft: &mut Draft,
    wanted: &ProxyDisplay,
    access: &Access,
    pending: &PendingProxy,
) -> Course<()> {
    let in_hand = world.remembered.unsaved_key.as_ref();
    if let Some(id) = in_hand.filter(|it| draft.status.proxy_id.as_ref() != Some(*it)) {
        return Err(Next::step(Step::Store(id.clone())));
    }
    let fits = pending.name == wanted.name && pending.binding.server_url == access.url;
    let found = match world.remembered.unrequested_name.as_ref() == Some(&pending.name) {
        true => None,
        false => find_proxy(world, draft, pending)?,
    };
    match found {
        None if fits => Err(request_registration(world, draft, pending)),
        None => {
            draft.status.pending = None;
            Ok(())
        }
        Some(found) if !is_own_proxy(world, pending, &found) => {
            draft.status.pending = None;
            Err(reject_foreign_proxy(world, draft, &pending.name))
        }
        Some(found) => {
            let made = ProxyRegistration {
                id: found.id.clone(),
                name: pending.name.clone(),
                binding: pending.binding.clone(),
            };
            if !fits {
                draft.status.pending = None;
                draft.retire_registration(made, world);
                return Err(Next::Persist);
            }
            if !has_stored_token(world, &made) {
                // The token is lost.
                return Err(run_unless_blocked(world, Step::RotateToken(made)));
            }
            draft.promote_pending(&found, world);
            Ok(())
        }
    }
}

/// The proxy that a record names, as the server has it now. One whose server cannot be asked any more is
/// left behind, and so is one of a former server that does not answer: the way to today's is not to be
/// barred by it.
fn find_proxy(world: &Observed, draft: &mut Draft, pending: &PendingProxy) -> Course<Option<WorkspaceProxy>> {
    if !world.bound_scopes.contains(&ProxyScope::for_binding(&pending.binding)) {
        draft.status.pending = None;
        draft.orphan_registration(&pending.binding.server_url, &pending.name);
        return Err(Next::Persist);
    }
    let fresh = MaxAge::Since(world.pass_started);
    let hindrance = match lookup_proxy(world, &pending.binding, &pending.name, fresh) {
        Ok(listed) => return Ok(listed.value.clone()),
        Err(Next::Stop(stop)) => match *stop {
            Stop::Blocked(hindrance) => hindrance,
            stop => return Err(stop.into()),
        },
        Err(next) => return Err(next),
    };
    let stop = draft.stop_blocked(world, &pending.binding, &pending.name, &hindrance);
    let given_up = elapsed(&pending.since, world.now) >= POD_LINGER && !is_queued(&hindrance);
    if matches!(stop, Stop::FormerServer(_)) && given_up {
        draft.status.pending = None;
        draft.orphan_registration(&pending.binding.server_url, &pending.name);
        return Err(Next::Persist);
    }
    Err(stop.into())
}

/// Whether a proxy of the pending name is the one that was asked for: its id was answered, or it bears the
/// mark of this object and was made after the name was written down. The time alone proves nothing.
pub(super) fn is_own_proxy(world: &Observed, pending: &PendingProxy, found: &WorkspaceProxy) -> bool {
    if world.remembered.unsaved_key.as_ref() == Some(&found.id) {
        return true;
    }
    let made = found.created_at.map(whole_seconds);
    let marked = is_marked(&world.object, &found.icon);
    marked && made.is_some_and(|made| add_span(&made, CLOCK_SLACK) >= pending.since.0)
}

fn request_registration(world: &Observed, draft: &mut Draft, pending: &PendingProxy) -> Next {
    let first_time = world.remembered.unrequested_name.as_ref() == Some(&pending.name);
    match &world.progress.blocked {
        // A request of an earlier process may have been served only now: a read will show.
        Some(hindrance) if hindrance.class() == Some(CallErrorClass::Exists) && !first_time => Next::Persist,
        Some(hindrance) if hindrance.class() == Some(CallErrorClass::Exists) => {
            draft.status.pending = None;
            reject_foreign_proxy(world, draft, &pending.name)
        }
        _ => run_unless_blocked(world, Step::Register(pending.clone())),
    }
}

fn reject_foreign_proxy(world: &Observed, draft: &mut Draft, name: &str) -> Next {
    let story = format!(
        "the server has another proxy {name}: choose another spec.bootstrap.proxyName, or delete \
         that proxy"
    );
    let said = |it: &Condition| it.type_ == conditions::REGISTERED && it.reason == reasons::PROXY_FOREIGN;
    if !world.status.conditions.iter().any(said) {
        let note = EventNote::warning("ProxyNotOurs", "Register", story.clone());
        draft.notes.push(note);
    }
    Stop::rejected(reasons::PROXY_FOREIGN, story).into()
}

/// A token that was replaced speaks for the same server: what is bound to it is reached with the new one.
pub(super) fn rebind_records(draft: &mut Draft, access: &Access) {
    let status = &mut draft.status;
    let retiring = status.retiring.iter_mut().map(|it| &mut it.binding);
    let all = retiring.chain(&mut status.binding);
    for binding in all.filter(|it| it.server_url == access.url) {
        *binding = access.binding.clone();
    }
}

/// Takes over a proxy whose token a Secret of the right name already holds.
fn adopt_proxy(
    world: &Observed,
    draft: &mut Draft,
    wanted: &ProxyDisplay,
    access: &Access,
) -> Course<Option<ProxyRegistration>> {
    let SecretState::Owned {
        key_name: Some(id),
        intact: true,
    } = &world.secret
    else {
        return Ok(None);
    };
    let listed = lookup_proxy(world, &access.binding, id, MaxAge::Since(world.pass_started))?;
    let known = listed.value.as_ref();
    // One of another cluster whose Secret was restored here serves there.
    let theirs = |it: &WorkspaceProxy| is_marked_by_other(&world.object, &it.icon);
    let named = |it: &&WorkspaceProxy| it.id == *id && it.name == wanted.name && !theirs(it);
    let Some(found) = known.filter(named) else {
        return Ok(None);
    };
    draft.set_current(
        ProxyRegistration {
            id: id.clone(),
            name: found.name.clone(),
            binding: access.binding.clone(),
        },
        world,
    );
    draft.record_observed_display(found);
    // A token that was asked for is not the one that is there.
    if draft.status.rotation.asked.is_none() {
        draft.record_rotation(world);
    }
    Err(Next::Persist)
}

/// The server knows the proxy under another URL too: it is the same server.
fn same_server(world: &Observed, draft: &mut Draft, access: &Access, current: &ProxyRegistration) -> Course<bool> {
    let listed = lookup_proxy(world, &access.binding, &current.id, MaxAge::Since(world.pass_started))?;
    let same = listed.value.as_ref().is_some_and(|it| it.id == current.id);
    if same {
        draft.status.binding = Some(access.binding.clone());
    }
    match same {
        true => Err(Next::Persist),
        false => Ok(false),
    }
}

/// Whether the server still knows the proxy, and how it finds it. What cannot be asked stays in use.
fn check_registered(world: &Observed, draft: &mut Draft, current: &ProxyRegistration) -> Course<()> {
    let calm = world.status.phase.as_deref() == Some("Ready");
    let fresh = MaxAge::Within(if calm { STEADY_MAX_AGE } else { WAITING_MAX_AGE } - AGE_TOLERANCE);
    match lookup_proxy(world, &current.binding, &current.id, fresh) {
        Err(Next::Stop(stop)) => match *stop {
            Stop::Blocked(hindrance) => {
                draft.record_blocked(&hindrance);
                Ok(())
            }
            other => Err(other.into()),
        },
        Err(next) => Err(next),
        Ok(listed) => match &listed.value {
            Some(found) => {
                draft.healthy = Some(is_healthy(found));
                Ok(())
            }
            None => handle_unregistered(world, draft, current),
        },
    }
}

/// The server does not know the id. Unless it knows the name, and by it the very same proxy, that is gone.
fn handle_unregistered(world: &Observed, draft: &mut Draft, current: &ProxyRegistration) -> Course<()> {
    let fresh = MaxAge::Since(world.pass_started);
    let by_name = match lookup_proxy(world, &current.binding, &current.name, fresh) {
        Ok(listed) => listed.value.as_ref(),
        Err(Next::Stop(stop)) => match *stop {
            Stop::Blocked(hindrance) => {
                draft.record_blocked(&hindrance);
                return Ok(());
            }
            stop => return Err(stop.into()),
        },
        Err(next) => return Err(next),
    };
    if let Some(found) = by_name.filter(|it| it.id == current.id) {
        draft.healthy = Some(is_healthy(found));
        draft.requeue_within(WAITING_MAX_AGE);
        return Ok(());
    }
    draft.notes.push(EventNote::warning(
        "ProxyVanished",
        "Heal",
        format!("proxy {} was deleted on the server; registering it again", current.name),
    ));
    draft.retire_current(world);
    Err(Next::Persist)
}

/// Whether the server finds a proxy well.
fn is_healthy(found: &WorkspaceProxy) -> bool {
    let health = found.status.as_ref().map(|it| it.status.as_str());
    health == Some("ok")
}

/// The token is in the Secret, and no other is requested. A request is written down before the
/// server is, and stays so until a new one is in the Secret: an answer that was lost may have made
/// the old one worthless.
fn ensure_token(world: &Observed, draft: &mut Draft, current: &ProxyRegistration) -> Course<()> {
    if world.remembered.unsaved_key.as_ref() == Some(&current.id) && !has_stored_token(world, current) {
        return Err(Next::step(Step::Store(current.id.clone())));
    }
    let wish = requested_rotation(&world.object);
    let wished = wish.is_some() && wish != draft.status.rotation.honoured;
    let rotation = &mut draft.status.rotation;
    let idle = has_stored_token(world, current) && !wished;
    if idle && rotation.asked.is_none() {
        return Ok(());
    }
    let noted = || rotation.asked.clone().or(rotation.honoured.clone());
    let note = wish.filter(|_| wished).or_else(noted).unwrap_or_default();
    if rotation.asked.as_ref() != Some(&note) {
        let why = if wished { "Asked" } else { "SecretLost" };
        rotation.reason = Some(why.to_owned());
        rotation.asked = Some(note);
        return Err(Next::Persist);
    }
    match &world.progress.blocked {
        // The wish was taken back, and what is in the Secret may well do.
        Some(hindrance) if idle && !hindrance.is_transient() => {
            draft.record_blocked(hindrance);
            Ok(())
        }
        _ => Err(run_unless_blocked(world, Step::RotateToken(current.clone()))),
    }
}

/// Writes down the name that comes next, once the server has shown that it is free. One that is
/// being taken back there is taken over again.
fn record_intent(world: &Observed, draft: &mut Draft, wanted: &ProxyDisplay, access: &Access, why: &str) -> Next {
    let fresh = MaxAge::Since(world.pass_started);
    let listed = match lookup_proxy(world, &access.binding, &wanted.name, fresh) {
        Ok(listed) => listed,
        Err(next) => return next,
    };
    if let Some(found) = &listed.value {
        let retiring = draft.status.retiring.iter().any(|it| it.id == found.id);
        if !retiring {
            return reject_foreign_proxy(world, draft, &wanted.name);
        }
        draft.set_current(
            ProxyRegistration {
                id: found.id.clone(),
                name: wanted.name.clone(),
                binding: access.binding.clone(),
            },
            world,
        );
        draft.record_observed_display(found);
        return Next::Persist;
    }
    if !world.secret_kept {
        return Stop::SecretNotKept.into();
    }
    draft.status.rotation.reason = Some(why.to_owned());
    draft.status.pending = Some(PendingProxy {
        name: wanted.name.clone(),
        since: whole_seconds(listed.server_time),
        binding: access.binding.clone(),
    });
    Next::Persist
}

//! The way out: pods stop, registrations are taken back, and only then the object goes. What cannot be
//! taken back is reported.

use aplomb_api::coder::{RetiringProxy, annotations};
use kube::ResourceExt;

use super::draft::{Course, Draft, Next, Stop};
use super::registration::{look, ours, rebind};
use super::{holds, retire};
use crate::proxy::world::{Place, Registration, Step, World};
use crate::server::Fresh;
use crate::times::elapsed;

pub(super) fn course(world: &World, draft: &mut Draft) -> Course<()> {
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
    if let_go(world) {
        abandon(draft);
    }
    unintend(world, draft)?;
    if draft.status.retiring.is_empty() {
        return Err(Next::step(Step::Release));
    }
    if world.deployment.as_ref().is_some_and(|it| it.replicas != 0) && !world.seen.drained {
        return Err(Next::step(Step::Drain));
    }
    let old = draft.status.retiring.clone();
    match old.first() {
        Some(old) => one(world, old),
        None => Ok(()),
    }
}

fn one(world: &World, old: &RetiringProxy) -> Course<()> {
    if !world.bound.contains(&Place::of(&old.binding)) {
        return Err(Stop::Leaving(unreachable(&old.binding.server_url, &old.name)).into());
    }
    match &world.seen.hindered {
        None => Err(Next::step(Step::Deregister(old.clone()))),
        Some(hindrance) => Err(Stop::Hindered(hindrance.clone()).into()),
    }
}

/// A name that was written down may have been registered: then it is to be taken back too.
pub(super) fn unintend(world: &World, draft: &mut Draft) -> Course<()> {
    let Some(pending) = draft.status.pending.clone() else {
        return Ok(());
    };
    let (server, name) = (&pending.binding.server_url, &pending.name);
    if !world.bound.contains(&Place::of(&pending.binding)) {
        return Err(Stop::Leaving(unreachable(server, name)).into());
    }
    let fresh = Fresh::Since(world.began);
    let found = look(world, &pending.binding, name, fresh)?.value.clone();
    draft.status.pending = None;
    if let Some(found) = found.filter(|found| ours(&pending, found)) {
        let made = Registration {
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

/// Whether the object goes without the server.
fn let_go(world: &World) -> bool {
    let told = world.object.annotations().get(annotations::ABANDON);
    let since = world.object.metadata.deletion_timestamp.as_ref();
    let over = since.is_some_and(|since| elapsed(since, world.now) >= retire::deadline(world));
    over || told.is_some_and(|it| it == "true")
}

fn abandon(draft: &mut Draft) {
    for old in std::mem::take(&mut draft.status.retiring) {
        draft.orphan(&old.binding.server_url, &old.name);
    }
    if let Some(pending) = draft.status.pending.take() {
        draft.orphan(&pending.binding.server_url, &pending.name);
    }
}

fn unreachable(server: &str, name: &str) -> String {
    format!(
        "the token of {server} is gone, so that the proxy {name} cannot be taken back there: put it back \
         into its Secret, or set the annotation {} to \"true\"",
        annotations::ABANDON
    )
}

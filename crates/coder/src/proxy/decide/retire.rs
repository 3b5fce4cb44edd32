//! Registrations that were replaced: each is taken back once its successor serves.

use std::time::Duration;

use aplomb_api::coder::RetiringProxy;

use super::draft::{Course, Draft, Next};
use super::{SELDOM, SOON};
use crate::proxy::world::{Place, Step, World};
use crate::times::elapsed;

/// How long pods of an earlier template may linger.
const LINGER: Duration = Duration::from_secs(300);
/// How long a server that cannot be reached is waited for, where the spec says nothing any more.
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn course(world: &World, draft: &mut Draft) -> Course<()> {
    for old in draft.status.retiring.clone() {
        if overdue(world, &old) {
            draft.status.retiring.retain(|it| it.id != old.id);
            draft.orphan(&old.binding.server_url, &old.name);
            continue;
        }
        if !world.bound.contains(&Place::of(&old.binding)) {
            draft.again(SELDOM);
            continue;
        }
        if !succeeded(world, draft, &old) {
            draft.again(SOON);
            continue;
        }
        match &world.seen.hindered {
            None => return Err(Next::step(Step::Deregister(old))),
            Some(hindrance) => {
                draft.hinder(hindrance);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// How long a server is waited for.
pub(super) fn deadline(world: &World) -> Duration {
    let bootstrap = world.object.spec.bootstrap.as_ref();
    bootstrap.map_or(DAY, |it| it.deletion_deadline.0)
}

fn overdue(world: &World, old: &RetiringProxy) -> bool {
    elapsed(&old.retired, world.now) >= deadline(world)
}

/// Whether the pods serve under the new registration, and those under the old one are gone or had the time
/// to go.
fn succeeded(world: &World, draft: &Draft, old: &RetiringProxy) -> bool {
    let replicas = world.object.spec.replicas;
    let deployment = world.deployment.clone().unwrap_or_default();
    let serves = match &world.access {
        _ if replicas == 0 => true,
        Some(_) => draft.healthy == Some(true),
        None => deployment.ready >= replicas,
    };
    serves && (deployment.rolled || elapsed(&old.retired, world.now) >= LINGER)
}

//! Registrations that were replaced: each is taken back once its successor serves.

use std::time::Duration;

use aplomb_api::coder::RetiringProxy;

use super::SOON;
use super::draft::{Course, Draft, Next};
use crate::hindrance::Blocked;
use crate::proxy::world::{Observed, ProxyScope, Step};
use crate::times::elapsed;

/// How long pods of an earlier template may linger.
pub(super) const LINGER: Duration = Duration::from_secs(300);
/// How long a server that cannot be reached is waited for, where the spec says nothing any more.
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn course(world: &Observed, draft: &mut Draft) -> Course<()> {
    for old in draft.status.retiring.clone() {
        let bound = world.bound.contains(&ProxyScope::of(&old.binding));
        if bound && !succeeded(world, draft, &old) {
            draft.again(SOON);
            continue;
        }
        let late = elapsed(&old.retired, world.now) >= deadline(world);
        match undone(world, &old) {
            None if bound => return Err(Next::step(Step::Deregister(old))),
            Some(hindrance) if !late || queued(hindrance) => {
                draft.hinder_at(world, &old.binding, hindrance);
            }
            _ if late => draft.leave(&old),
            _ => {}
        }
    }
    Ok(())
}

/// Why a registration was not taken back in this pass. One that is hindered does not hold up the others.
pub(super) fn undone<'a>(world: &'a Observed, old: &RetiringProxy) -> Option<&'a Blocked> {
    let same =
        |it: &RetiringProxy| it.id == old.id && it.binding.server_url == old.binding.server_url;
    let mut all = world.seen.undone.iter();
    all.find(|(it, _)| same(it)).map(|(_, why)| why)
}

/// Whether a call only waits for its turn: its server is there, and it is not given up.
pub(super) fn queued(hindrance: &Blocked) -> bool {
    matches!(hindrance, Blocked::Later { limited: false, .. })
}

/// How long a server is waited for.
pub(super) fn deadline(world: &Observed) -> Duration {
    let bootstrap = world.object.spec.bootstrap.as_ref();
    bootstrap.map_or(DAY, |it| it.deletion_deadline.0)
}

/// Whether the pods serve under the new registration, and those under the old one are gone or had the time
/// to go.
fn succeeded(world: &Observed, draft: &Draft, old: &RetiringProxy) -> bool {
    let replicas = world.object.spec.replicas;
    let deployment = world.deployment.clone().unwrap_or_default();
    let serves = match &world.access {
        _ if replicas == 0 => true,
        Some(_) => draft.healthy == Some(true),
        None => deployment.ready >= replicas,
    };
    serves && (deployment.rolled || elapsed(&old.retired, world.now) >= LINGER)
}

//! Registrations that were replaced: each is taken back once its successor serves.

use std::time::Duration;

use aplomb_api::coder::RetiringProxy;

use super::WAITING_MAX_AGE;
use super::plan_builder::{Course, Draft, Next};
use crate::hindrance::Blocked;
use crate::times::elapsed;
use crate::workspace_proxy::world::{Observed, ProxyScope, Step};

/// How long pods of an earlier template may linger.
pub(super) const POD_LINGER: Duration = Duration::from_secs(300);
/// How long a server that cannot be reached is waited for, where the spec says nothing any more.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(86_400);

pub(super) fn decide_retirement(world: &Observed, draft: &mut Draft) -> Course<()> {
    for old in draft.status.retiring.clone() {
        let bound = world.bound_scopes.contains(&ProxyScope::for_binding(&old.binding));
        if bound && !is_replaced(world, draft, &old) {
            draft.requeue_within(WAITING_MAX_AGE);
            continue;
        }
        let late = elapsed(&old.retired, world.now) >= deadline(world);
        match deregister_blocked(world, &old) {
            None if bound => return Err(Next::step(Step::Deregister(old))),
            Some(hindrance) if !late || is_queued(hindrance) => {
                draft.record_blocked_at(world, &old.binding, hindrance);
            }
            _ if late => draft.abandon_registration(&old),
            _ => {}
        }
    }
    Ok(())
}

/// Why a registration was not taken back in this pass. One that is hindered does not hold up the others.
pub(super) fn deregister_blocked<'a>(world: &'a Observed, old: &RetiringProxy) -> Option<&'a Blocked> {
    let same = |it: &RetiringProxy| it.id == old.id && it.binding.server_url == old.binding.server_url;
    let mut all = world.progress.deregister_blocked.iter();
    all.find(|(it, _)| same(it)).map(|(_, why)| why)
}

/// Whether a call only waits for its turn: its server is there, and it is not given up.
pub(super) fn is_queued(hindrance: &Blocked) -> bool {
    matches!(hindrance, Blocked::Later { limited: false, .. })
}

/// How long a server is waited for.
pub(super) fn deadline(world: &Observed) -> Duration {
    let bootstrap = world.object.spec.bootstrap.as_ref();
    bootstrap.map_or(DEFAULT_DEADLINE, |it| it.deletion_deadline.0)
}

/// Whether the pods serve under the new registration, and those under the old one are gone or had the time
/// to go.
fn is_replaced(world: &Observed, draft: &Draft, old: &RetiringProxy) -> bool {
    let replicas = world.object.spec.replicas;
    let deployment = world.deployment.clone().unwrap_or_default();
    let serves = match &world.access {
        _ if replicas == 0 => true,
        Some(_) => draft.healthy == Some(true),
        None => deployment.ready >= replicas,
    };
    serves && (deployment.rolled || elapsed(&old.retired, world.now) >= POD_LINGER)
}

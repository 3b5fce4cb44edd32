//! When to decide again, and how the status reports that.

use std::time::Duration;

use aplomb_api::DurationString;
use aplomb_api::egress::HealthSignal;
use jiff::Timestamp;

use super::election::Election;
use super::limits::dwells_until;
use super::movement::MoveStep;
use super::scene::Assessment;
use super::tidings::{between, later};

/// Minimum wait.
const SHORTEST: Duration = Duration::from_millis(10);

/// How long until the next decision if nothing changes.
pub(super) fn again(scene: &Assessment<'_>, next: &MoveStep) -> Duration {
    let world = scene.world;
    let routine = match next {
        MoveStep::Do(_) => Duration::ZERO,
        MoveStep::Wait(wait) => *wait,
        MoveStep::Rest => world.cloud.resync,
    };
    let ends = ends_next(scene).map(|end| between(scene.now, end));
    let probes = world.spec.health.signal == HealthSignal::Probe;
    let probe = probes.then_some(world.spec.health.probe.interval.0);
    let soonest = [Some(routine), ends, probe].into_iter().flatten().min();
    soonest.unwrap_or(routine).max(SHORTEST)
}

/// The next check as the status reports it.
pub(super) fn next_check(scene: &Assessment<'_>) -> String {
    if let Some(end) = ends_next(scene) {
        return end.to_string();
    }
    let (asked, now) = (scene.world.spec.resync.0, scene.world.cloud.resync);
    let times = now.as_millis().div_ceil(asked.as_millis().max(1)).max(1);
    let times = u32::try_from(times).unwrap_or(u32::MAX);
    format!("every {}", DurationString(asked.saturating_mul(times)))
}

/// The next time at which a period ends.
fn ends_next(scene: &Assessment<'_>) -> Option<Timestamp> {
    let world = scene.world;
    let held = scene.held.as_ref().and_then(|held| held.until);
    let election = match &scene.election {
        Election::Grace { trouble, .. } => Some(trouble.ends),
        Election::Capped { until, .. } => Some(*until),
        Election::Chosen(choice) => choice.pin_at,
        Election::Nobody => None,
    };
    let respected = scene.elsewhere.map(|elsewhere| {
        let dwells = dwells_until(world, scene.now);
        dwells.map_or(elsewhere.until, |until| until.max(elsewhere.until))
    });
    let pin = world.spec.pin.as_ref().and_then(|pin| pin.until.as_ref());
    let moving = world
        .status
        .moving
        .as_ref()
        .filter(|moving| !moving.overdue);
    let deadline = moving.map(|moving| {
        let decided = moving.decided.0.min(scene.now);
        later(decided, world.spec.move_deadline.0)
    });
    let ends = [held, election, respected, pin.map(|t| t.0), deadline];
    ends.into_iter().flatten().filter(|t| *t > scene.now).min()
}

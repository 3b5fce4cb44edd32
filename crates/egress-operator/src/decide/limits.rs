//! What keeps the floating IP from moving to and fro: dwell, and a cap on moves by the hour. Neither
//! keeps it on a dead node.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::tidings::add_span;
use crate::world::Observed;

const CAP_WINDOW: Duration = Duration::from_secs(3600);

/// When a move without need may be made, if not yet.
pub(super) fn dwell_end(world: &Observed, now: Timestamp) -> Option<Timestamp> {
    let (ended, dwell) = (
        world.status.last_move.as_ref()?.ended.as_ref()?.0,
        world.spec.dwell.0,
    );
    // A move that ended long after now was timed by a clock that has been set back.
    if ended > add_span(now, dwell) {
        return None;
    }
    Some(add_span(ended, dwell)).filter(|until| *until > now)
}

/// When a move away from a node that is in trouble but not dead may be made, if not yet.
pub(super) fn cap_end(world: &Observed, now: Timestamp) -> Option<Timestamp> {
    let moves = world.status.recent_moves.iter();
    let mut recent: Vec<Timestamp> = moves
        .filter(|moment| is_within_window(moment, now))
        .map(|moment| add_span(moment.0, CAP_WINDOW))
        .collect();
    recent.sort_unstable();
    let most = usize::try_from(world.spec.max_moves_per_hour).unwrap_or(usize::MAX);
    let over = recent.len().checked_sub(most.max(1))?;
    recent.get(over).copied()
}

/// Drops the moves that do not count any more.
pub(super) fn drop_expired_moves(moves: &mut Vec<Time>, now: Timestamp) {
    moves.retain(|moment| is_within_window(moment, now));
}

/// Whether a move was within the last hour. One that is yet to come was timed by a clock that has been
/// set back.
fn is_within_window(moment: &Time, now: Timestamp) -> bool {
    moment.0 <= now && add_span(moment.0, CAP_WINDOW) > now
}

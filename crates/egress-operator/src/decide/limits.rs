//! Limits that keep the floating IP from flapping: dwell time, and a maximum number of moves per
//! hour. Neither keeps it on a dead node.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::tidings::add_span;
use crate::world::Observed;

const CAP_WINDOW: Duration = Duration::from_secs(3600);

/// The earliest time for an optional move; `None` if now.
pub(super) fn dwell_end(world: &Observed, now: Timestamp) -> Option<Timestamp> {
    let (ended, dwell) = (world.status.last_move.as_ref()?.ended.as_ref()?.0, world.spec.dwell.0);
    // A move that ended in the far future was timed by a clock that was set back since.
    if ended > add_span(now, dwell) {
        return None;
    }
    Some(add_span(ended, dwell)).filter(|until| *until > now)
}

/// The earliest time for a move away from a gateway that has a problem but is not dead; `None` if
/// now.
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

/// Drops moves that no longer count.
pub(super) fn drop_expired_moves(moves: &mut Vec<Time>, now: Timestamp) {
    moves.retain(|moment| is_within_window(moment, now));
}

/// Whether a move was within the last hour. One in the future was timed by a clock that was set
/// back since.
fn is_within_window(moment: &Time, now: Timestamp) -> bool {
    moment.0 <= now && add_span(moment.0, CAP_WINDOW) > now
}

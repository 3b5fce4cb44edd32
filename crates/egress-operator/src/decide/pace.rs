//! How soon a call to the provider is retried. Waits stay near one refill tick of the rate limit,
//! because a client that waits for minutes misses the next free token.

use std::time::Duration;

use super::election::MAX_REFUSALS;
use crate::world::{Observed, ProviderTrouble};

/// Refill interval of a rate limit of 3,600 per hour.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// The longest wait of a move.
const MAX_MOVE_WAIT: Duration = Duration::from_secs(5);
/// How many attempts at a lock are made before they become rarer.
pub(super) const MAX_FAST_LOCK_RETRIES: u32 = 30;
/// The longest wait between two refused writes of a leader's term.
const MAX_TERM_WAIT: Duration = Duration::from_secs(600);
/// Jitter of waits, so that several clients do not retry at the same moment.
const SPREAD_MILLIS: u64 = 250;

/// How long to wait after the last failure before a move retries.
fn retry_delay(world: &Observed, trouble: &ProviderTrouble) -> Duration {
    if let (ProviderTrouble::Throttled, Some(pace)) = (trouble, world.floating_ip.retry_delay) {
        return pace;
    }
    let refusals = world.moving.as_ref().map_or(0, |moving| moving.refusals);
    let times = world.floating_ip.troubles.max(refusals).max(1);
    // Either one server refuses again and again, or several in turn.
    let always = refusals >= 2 * MAX_REFUSALS || (refusals >= MAX_REFUSALS && times >= 4 * MAX_REFUSALS);
    let grown = TICK * 2_u32.saturating_pow(times.min(8) - 1);
    let pause = match trouble {
        ProviderTrouble::Throttled => TICK,
        // Locks end within seconds; one that lasts must not use up the budget.
        ProviderTrouble::Locked if times <= MAX_FAST_LOCK_RETRIES => TICK,
        ProviderTrouble::Locked => MAX_MOVE_WAIT,
        // A repeated refusal is permanent and must not use up the budget.
        ProviderTrouble::Refused(_) if always => world.floating_ip.resync.max(MAX_MOVE_WAIT),
        ProviderTrouble::Unreachable(_) | ProviderTrouble::ActionFailed(_) | ProviderTrouble::Refused(_) => {
            grown.min(MAX_MOVE_WAIT)
        }
        // Only a person can fix this, and their change triggers a reconcile.
        ProviderTrouble::NoToken(_) | ProviderTrouble::Unauthorized | ProviderTrouble::NotFound => {
            world.floating_ip.resync
        }
    };
    let spread = object_rng(world, u64::from(times)).u64(0..SPREAD_MILLIS);
    pause + Duration::from_millis(spread)
}

/// How long a move must wait before its next call.
pub(super) fn move_wait(world: &Observed) -> Duration {
    let cloud = &world.floating_ip;
    let (Some(trouble), Some(at)) = (&cloud.trouble, cloud.trouble_at) else {
        return Duration::ZERO;
    };
    (at + retry_delay(world, trouble)).saturating_sub(world.uptime)
}

/// How long a move must wait after an action that failed at `at`.
pub(super) fn action_wait(world: &Observed, at: Duration, trouble: &ProviderTrouble) -> Duration {
    (at + retry_delay(world, trouble)).saturating_sub(world.uptime)
}

/// Pause between two polls of an action. Most actions end in seconds; the others must not use up
/// the budget.
pub(super) fn poll_interval(polls: u32) -> Duration {
    let millis = match polls {
        0..8 => 500,
        8..16 => 1_000,
        _ => 2_000,
    };
    Duration::from_millis(millis)
}

/// Time of the next routine read, in this process's time. Jitter only adds to it: the maximum
/// number of reads per hour is documented.
pub(super) fn next_read_at(world: &Observed) -> Duration {
    let cloud = &world.floating_ip;
    let seen = cloud.observed.as_ref().map(|seen| seen.at);
    let Some(last) = seen.max(cloud.trouble_at) else {
        return Duration::ZERO;
    };
    let millis = u64::try_from(cloud.resync.as_millis()).unwrap_or(u64::MAX);
    let salt = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
    let spread = object_rng(world, salt).u64(0..=millis / 10);
    let due = last + cloud.resync + Duration::from_millis(spread);
    due.max(cloud.next_read_at.unwrap_or_default())
}

/// Time of the next write of this leader's term, in this process's time: at once, one resync after
/// another call failed, and less and less often while the write itself fails. A read always comes
/// in between, because a write without a response may have been applied.
pub(super) fn next_term_write_at(world: &Observed) -> Duration {
    let cloud = &world.floating_ip;
    // After the read that is due then, with its jitter.
    let answered = cloud.trouble_at.map(|at| at + cloud.resync + cloud.resync / 8);
    let accepted = cloud.term_failure.as_ref().map(|failed| {
        let grown = cloud.resync * 2_u32.saturating_pow(failed.failures.clamp(1, 5));
        failed.at + grown.min(cloud.resync.max(MAX_TERM_WAIT))
    });
    answered.max(accepted).unwrap_or_default()
}

/// Random numbers that depend only on this object and `salt`, the same in every process.
fn object_rng(world: &Observed, salt: u64) -> fastrand::Rng {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = world
        .name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(PRIME));
    fastrand::Rng::with_seed(hash ^ salt.wrapping_mul(PRIME))
}

//! The rate limit in the status: it changes when the level changes, not with every call.

use aplomb_api::egress::{BudgetLevel, BudgetStatus, StableEgressStatus};

use crate::world::{Observed, RemainingCalls};

/// `status` with the rate limit. The figures are those of the last change of level or of the last
/// change of any other field.
pub(super) fn record_budget(world: &Observed, mut status: StableEgressStatus) -> StableEgressStatus {
    let Some(seen) = world.floating_ip.budget else {
        return status;
    };
    let before = world.status.budget.as_ref();
    let level = budget_level(seen, before.map(|budget| budget.level));
    let same = before.is_some_and(|b| b.level == level && b.limit == seen.limit);
    if same && status == world.status {
        return status;
    }
    status.budget = Some(BudgetStatus {
        limit: seen.limit,
        remaining: seen.remaining,
        level,
    });
    status
}

/// The level of `seen`. Leaving a level takes a margin, so that it does not flap.
fn budget_level(seen: RemainingCalls, before: Option<BudgetLevel>) -> BudgetLevel {
    let at = |margin: u32| {
        let reserve = seen.reserved_calls() * margin / 100;
        let low = seen.limit / 4 * margin / 100;
        match seen.remaining {
            left if left <= reserve => BudgetLevel::Reserve,
            left if left < low => BudgetLevel::Low,
            _ => BudgetLevel::Plenty,
        }
    };
    let now = at(100);
    before.map_or(now, |before| now.max(at(150).min(before)))
}

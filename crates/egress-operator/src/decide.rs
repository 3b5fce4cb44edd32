//! What to do next: the same world always leads to the same plan.
//!
//! Pure and synchronous: no clock, no IO, no memory of its own. Whatever a decision depends on is in
//! the [`Observed`], and whatever shall be remembered is in the [`Plan`]'s status.

mod allowlist;
mod budget;
mod conditions;
mod election;
mod elsewhere;
mod health;
mod hold;
mod labels;
mod limits;
mod failover;
mod notes;
mod pace;
mod assessment;
mod schedule;
mod status;
mod tidings;
mod messages;

#[cfg(test)]
mod tests;

use crate::world::{Observed, Plan};
use assessment::Assessment;

pub use allowlist::{Cidr, InvalidCidr};
pub(crate) use election::MAX_REFUSALS;

/// Decides what to do next in `world`, and what to say of it.
#[must_use]
pub fn decide(world: &Observed) -> Plan {
    let scene = Assessment::new(world);
    let next = failover::next_step(&scene);
    let mut status = status::build_status(&scene);
    let conditions = conditions::build_conditions(&scene, &status);
    status.next_check = Some(schedule::next_check_message(&scene));
    let mut status = budget::record_budget(world, status);
    let notes = notes::build_notes(&scene, &status, &conditions);
    // They are the runtime's to write, from the list beside it.
    status.conditions.clear();
    let again = schedule::requeue_after(&scene, &next);
    Plan {
        step: next.step(),
        requeue_after: again,
        status,
        conditions,
        notes,
    }
}

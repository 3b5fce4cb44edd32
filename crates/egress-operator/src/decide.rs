//! Decides the next step: the same input always gives the same plan.
//!
//! Pure and synchronous: no clock, no IO, no memory of its own. All input is in [`Observed`], and
//! all state to keep is in the status of the [`Plan`].

mod allowlist;
mod assessment;
mod budget;
mod conditions;
mod election;
mod elsewhere;
mod failover;
mod health;
mod hold;
mod labels;
mod limits;
mod messages;
mod notes;
mod pace;
mod schedule;
mod status;
mod tidings;

#[cfg(test)]
mod tests;

use crate::world::{Observed, Plan};
use assessment::Assessment;

pub use allowlist::{Cidr, InvalidCidr};
pub(crate) use election::MAX_REFUSALS;

/// Decides the next step in `world`, and the status to report.
#[must_use]
pub fn decide(world: &Observed) -> Plan {
    let scene = Assessment::new(world);
    let next = failover::next_step(&scene);
    let mut status = status::build_status(&scene);
    let conditions = conditions::build_conditions(&scene, &status);
    status.next_check = Some(schedule::next_check_message(&scene));
    let mut status = budget::record_budget(world, status);
    let notes = notes::build_notes(&scene, &status, &conditions);
    // The runtime writes the conditions, from `Plan::conditions`.
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

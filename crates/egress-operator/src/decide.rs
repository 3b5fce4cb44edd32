//! Decides the next step: the same input always gives the same plan.
//!
//! Pure and synchronous: no clock, no IO, no memory of its own. All input is in [`Observed`], and
//! all state to keep is in the status of the [`Plan`].

mod assessment;
mod conditions;
mod election;
mod failover;
mod health;
mod messages;
mod status;

#[cfg(test)]
mod tests;

use crate::egress::{Observed, Plan};
use assessment::Assessment;

pub use assessment::{Cidr, InvalidCidr};
pub(crate) use election::MAX_REFUSALS;

/// Decides the next step in `world`, and the status to report.
#[must_use]
pub fn decide(world: &Observed) -> Plan {
    let scene = Assessment::new(world);
    let next = failover::next_step(&scene);
    let mut status = status::build_status(&scene);
    let conditions = conditions::build_conditions(&scene, &status);
    status.next_check = Some(status::next_check_message(&scene));
    let mut status = status::record_budget(world, status);
    let notes = messages::build_notes(&scene, &status, &conditions);
    // The runtime writes the conditions, from `Plan::conditions`.
    status.conditions.clear();
    let again = status::requeue_after(&scene, &next);
    Plan {
        step: next.step(),
        requeue_after: again,
        status,
        conditions,
        notes,
    }
}

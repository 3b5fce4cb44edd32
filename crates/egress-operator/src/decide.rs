//! Decides the next step: the same input always gives the same plan.
//!
//! Pure and synchronous: no clock, no IO, no memory of its own. All input is in [`Observed`], and
//! all state to keep is in the status of the [`Plan`].

mod allowlist;
mod budget;
mod conditions;
mod election;
mod elsewhere;
mod health;
mod hold;
mod labels;
mod limits;
mod movement;
mod notes;
mod pace;
mod scene;
mod schedule;
mod status;
mod tidings;
mod wording;

#[cfg(test)]
mod tests;

use crate::world::{Observed, Plan};
use scene::Assessment;

pub use allowlist::{Cidr, InvalidCidr};
pub(crate) use election::REFUSALS;

/// Decides the next step in `world`, and the status to report.
#[must_use]
pub fn decide(world: &Observed) -> Plan {
    let scene = Assessment::of(world);
    let next = movement::next(&scene);
    let mut status = status::of(&scene);
    let conditions = conditions::of(&scene, &status);
    status.next_check = Some(schedule::next_check(&scene));
    let mut status = budget::noted(world, status);
    let notes = notes::of(&scene, &status, &conditions);
    // The runtime writes the conditions, from `Plan::conditions`.
    status.conditions.clear();
    let again = schedule::again(&scene, &next);
    Plan {
        step: next.step(),
        again,
        status,
        conditions,
        notes,
    }
}

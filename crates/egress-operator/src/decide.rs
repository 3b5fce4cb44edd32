//! Decides the next step: the same input always gives the same plan.
//!
//! Pure and synchronous: no clock, no IO, no memory of its own. All input is in [`Observed`], and all state to keep is
//! in the status of the [`Plan`].

mod assessment;
mod conditions;
mod election;
mod failover;
mod health;
mod messages;
mod status;

#[cfg(test)]
mod tests;

use std::time::Duration;

use aplomb::{Condition, EventNote};
use aplomb_api::egress::{MoveCause, StableEgressStatus};

use self::assessment::Assessment;
use crate::egress::Observed;

pub use self::assessment::{Cidr, InvalidCidr};
pub(crate) use self::election::MAX_REFUSALS;

/// The result of a decision: the next step, and what to report.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The next step; without one there is nothing to do until `requeue_after`.
    pub step: Option<Step>,
    /// How long until the next decision without a step.
    pub requeue_after: Duration,
    /// The new status, without conditions.
    pub status: StableEgressStatus,
    /// The conditions, Ready included. An own condition that is missing here does not apply.
    pub conditions: Vec<Condition>,
    /// Events. Those of all plans of a reconcile are published at its end, each once.
    pub notes: Vec<EventNote>,
}

/// One effect. Each may be repeated safely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the floating IP, as a routine read or for a move.
    Read {
        /// Whether a move waits for it.
        urgent: bool,
    },
    WriteTerm,
    Assign {
        node: String,
        server: i64,
        cause: MoveCause,
    },
    Poll {
        action: i64,
    },
    Strip {
        node: String,
        on: LabelTarget,
    },
    Label {
        node: String,
        on: LabelTarget,
    },
}

/// Which object of a node has labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelTarget {
    Node,
    /// The CiliumNode of the same name.
    CiliumNode,
}

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

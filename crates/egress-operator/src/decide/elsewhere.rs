//! The floating IP was moved by a person to a server outside the candidates; it is left there for a
//! while.

use jiff::Timestamp;

use super::health::is_promotable;
use super::tidings::add_span;
use crate::world::{CandidateNode, LabelState, Observed};

/// The floating IP was moved to a foreign server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForeignAssignment {
    /// When that was first seen.
    pub(super) since: Timestamp,
    /// Until when it is left there.
    pub(super) until: Timestamp,
}

/// Whether the floating IP was moved to a server outside the candidates.
pub(super) fn foreign_assignment(world: &Observed, now: Timestamp) -> Option<ForeignAssignment> {
    let seen = world.floating_ip.observed.as_ref()?;
    let server = seen.server?;
    // The spec refers to another floating IP than before, so this one was not moved.
    if world.status.floating_ip_id.is_some_and(|id| id != seen.id) {
        return None;
    }
    let known = world.status.elsewhere_since.as_ref();
    // On first sight the floating IP is only assigned somewhere; it was not taken away.
    world.status.active_node.as_ref()?;
    let was_there = world.status.server_id == Some(server) && known.is_none();
    let node = current_holder(world);
    if was_there || node.is_some_and(|node| is_own_node(world, node)) {
        return None;
    }
    let since = known.map_or(now, |since| since.0.min(now));
    let until = add_span(since, world.spec.respect_foreign_moves.0);
    Some(ForeignAssignment { since, until })
}

/// The node that holds the floating IP, if known.
pub(super) fn current_holder(world: &Observed) -> Option<&CandidateNode> {
    let server = world.floating_ip.observed.as_ref()?.server?;
    world.nodes.iter().find(|node| node.server == Some(server))
}

fn is_own_node(world: &Observed, node: &CandidateNode) -> bool {
    let status = &world.status;
    let is = |name: Option<&String>| name == Some(&node.name);
    node.labels != LabelState::None
        || is_promotable(&world.spec, node)
        || is(status.active_node.as_ref())
        || is(status.moving.as_ref().map(|moving| &moving.to))
}

//! Who shall be the gateway. Knows nothing of how the floating IP gets there.

use aplomb_api::egress::{Cause, Suspicion};
use jiff::Timestamp;

use super::elsewhere::holder;
use super::health::{Standing, Trouble, dead, out, promotable, suspicion};
use super::limits::{capped_until, dwells_until};
use super::pace::LOCKED;
use crate::world::{ActionState, Labels, Node, World};

/// How many Assigns to one server are refused, or meet a lock, before another candidate is tried.
pub(crate) const REFUSALS: u32 = 3;

/// The outcome of an election.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Election<'a> {
    /// This node.
    Chosen(Choice<'a>),
    /// The gateway is in trouble and its grace is running: nothing is done.
    Grace {
        /// The gateway.
        node: &'a Node,
        /// What is wrong with it.
        trouble: Trouble,
    },
    /// The gateway is in trouble for too long, but there were too many moves already.
    Capped {
        /// The gateway.
        node: &'a Node,
        /// What is wrong with it.
        trouble: Trouble,
        /// When it may be moved.
        until: Timestamp,
    },
    /// No node can serve.
    Nobody,
}

/// The node that shall be the gateway.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice<'a> {
    /// The node.
    pub(super) node: &'a Node,
    /// Why it is another than before, if it is.
    pub(super) cause: Option<Cause>,
    /// When the need for that was first seen.
    pub(super) detected: Timestamp,
    /// When the pinned node may be chosen instead.
    pub(super) pin_at: Option<Timestamp>,
}

/// Holds the election.
pub(super) fn elect<'a>(
    world: &'a World,
    now: Timestamp,
    standings: &[(&'a Node, Standing)],
) -> Election<'a> {
    let incumbent = incumbent(world, standings);
    if let Some(incumbent) = incumbent.filter(|node| !gives_way(world, now, node)) {
        return Election::Chosen(confirmed_or_pinned(world, now, incumbent, standings));
    }
    let graces = standings.iter().filter_map(|(node, standing)| {
        let Standing::Grace(trouble) = standing else {
            return None;
        };
        Some((*node, trouble.clone()))
    });
    if let Some((node, trouble)) = graces.max_by_key(|(_, trouble)| trouble.ends) {
        return Election::Grace { node, trouble };
    }
    replace(world, now, standings)
}

/// The gateway that may stay, if there is one: of several, the one that holds the floating IP.
fn incumbent<'a>(world: &'a World, standings: &[(&'a Node, Standing)]) -> Option<&'a Node> {
    let eligible = || {
        let standings = standings.iter();
        standings.filter(|(_, standing)| *standing == Standing::Eligible)
    };
    let named = |name: Option<&String>| {
        let mut nodes = eligible().map(|(node, _)| *node);
        nodes.find(|node| Some(&node.name) == name)
    };
    let holds = holder(world);
    named(holds.map(|node| &node.name))
        .or_else(|| named(world.status.active_node.as_ref()))
        .or_else(|| eligible().map(|(node, _)| *node).min_by_key(|n| &n.name))
}

/// `incumbent`, or the node to which a person has moved the floating IP or pinned it.
fn confirmed_or_pinned<'a>(
    world: &'a World,
    now: Timestamp,
    incumbent: &'a Node,
    standings: &[(&'a Node, Standing)],
) -> Choice<'a> {
    let known = world.status.active_node.is_some();
    let moved = holder(world).filter(|node| known && promotable(&world.spec, node));
    let node = moved.unwrap_or(incumbent);
    let stays = Choice {
        node,
        cause: (node.name != incumbent.name).then_some(Cause::Adopted),
        detected: now,
        pin_at: None,
    };
    let eligible = |pinned: &Node| {
        let mut standings = standings.iter();
        standings.any(|(node, s)| node.name == pinned.name && *s == Standing::Eligible)
    };
    let pinned = pinned(world, now).filter(|node| node.name != stays.node.name);
    let pinned = pinned.filter(|node| eligible(node) || usable(world, node));
    match (pinned, dwells_until(world, now)) {
        (None, _) => stays,
        (Some(_), Some(until)) => Choice {
            pin_at: Some(until),
            ..stays
        },
        (Some(node), None) => Choice {
            node,
            cause: Some(Cause::Pinned),
            ..stays
        },
    }
}

/// The node that a person prefers, for as long as they asked.
fn pinned(world: &World, now: Timestamp) -> Option<&Node> {
    let pin = world.spec.pin.as_ref()?;
    if pin.until.as_ref().is_some_and(|until| until.0 <= now) {
        return None;
    }
    world.nodes.iter().find(|node| node.name == pin.node)
}

/// Whether the floating IP can be moved to `node`: also the provider lets it.
fn usable(world: &World, node: &Node) -> bool {
    promotable(&world.spec, node) && !refused(world, node)
}

/// The same, and now: no lock is in the way, and not all others were left for it.
fn free(world: &World, node: &Node) -> bool {
    usable(world, node) && !passed_over(world, node)
}

/// Whether the gateway cannot get back the floating IP that it has lost, and another node could.
fn gives_way(world: &World, now: Timestamp, node: &Node) -> bool {
    let declined = refused(world, node) || passed_over(world, node);
    declined && successor(world, now).is_some_and(|other| free(world, other))
}

/// Whether `node` was tried in vain in this round, or meets a lock too often.
fn passed_over(world: &World, node: &Node) -> bool {
    let holds = holder(world).is_some_and(|holder| holder.name == node.name);
    // Late in a round that goes on and on the first one that is unlocked should not wait for the others.
    let patient = world.cloud.troubles <= LOCKED;
    let most = if patient { REFUSALS } else { 1 };
    let passed = world.moving.as_ref().is_some_and(|moving| {
        let locked = moving.node == node.name && moving.locks >= most;
        let before = node.server.is_some_and(|it| moving.passed.contains(&it));
        locked || before
    });
    passed && !holds
}

/// Whether the provider refuses to move the floating IP to `node`, as far as was tried.
fn refused(world: &World, node: &Node) -> bool {
    let holds = holder(world).is_some_and(|holder| holder.name == node.name);
    world.moving.as_ref().is_some_and(|moving| {
        let action = moving.action.as_ref().map(|action| &action.state);
        let failed = match action {
            None | Some(ActionState::Error(_)) => true,
            Some(ActionState::Running) => false,
            // It is said to be there, and a look has shown that it is not.
            Some(ActionState::Success) => moving.looked && !holds,
        };
        moving.node == node.name && failed && moving.refusals >= REFUSALS
    })
}

/// Who takes over from a gateway that cannot stay.
fn replace<'a>(
    world: &'a World,
    now: Timestamp,
    standings: &[(&'a Node, Standing)],
) -> Election<'a> {
    let gateway = gateway(world, standings);
    if let Some((node, Standing::Spent(trouble))) = gateway
        && !dead(&world.spec, node)
        && let Some(until) = capped_until(world, now)
    {
        let trouble = trouble.clone();
        return Election::Capped {
            node,
            trouble,
            until,
        };
    }
    let (cause, detected) = match gateway {
        Some((_, Standing::Spent(trouble))) => (because(trouble.what), trouble.since),
        Some((_, Standing::Out(cause))) => (*cause, now),
        _ => (absence(world), now),
    };
    let Some(node) = successor(world, now) else {
        return Election::Nobody;
    };
    Election::Chosen(Choice {
        node,
        cause: Some(cause),
        detected,
        pin_at: None,
    })
}

fn successor(world: &World, now: Timestamp) -> Option<&Node> {
    let begun = world.status.moving.as_ref().map(|moving| &moving.to);
    let begun = world.nodes.iter().find(|node| Some(&node.name) == begun);
    let preferred = [pinned(world, now), holder(world), begun];
    let fits = |node: &&Node| free(world, node);
    let mut preferred = preferred.into_iter().flatten();
    let lowest = |fits: &dyn Fn(&&Node) -> bool| {
        let nodes = world.nodes.iter().filter(|node| fits(node));
        nodes.min_by_key(|node| &node.name)
    };
    preferred
        .find(fits)
        .or_else(|| lowest(&fits))
        .or_else(|| lowest(&|node| promotable(&world.spec, node)))
}

/// Of the nodes with the labels, the one whose state says why it must be replaced.
fn gateway<'a, 'b>(
    world: &World,
    standings: &'b [(&'a Node, Standing)],
) -> Option<(&'a Node, &'b Standing)> {
    let named = |name: Option<&String>| {
        let mut standings = standings.iter();
        standings.find(|(node, _)| Some(&node.name) == name)
    };
    named(holder(world).map(|node| &node.name))
        .or_else(|| named(world.status.active_node.as_ref()))
        .or_else(|| standings.iter().min_by_key(|(node, _)| &node.name))
        .map(|(node, standing)| (*node, standing))
}

/// Why there is no node with the labels.
fn absence(world: &World) -> Cause {
    let Some(name) = world.status.active_node.as_ref() else {
        return Cause::Unassigned;
    };
    let Some(node) = world.nodes.iter().find(|node| &node.name == name) else {
        return Cause::NodeDeleted;
    };
    if left_behind(node) {
        return Cause::NodeDeleted;
    }
    out(world, node)
        .or_else(|| suspicion(&world.spec, node).map(because))
        .unwrap_or(Cause::Unassigned)
}

/// Whether nothing of `node` is there but its CiliumNode.
fn left_behind(node: &Node) -> bool {
    let bare = node.labels == Labels::None && node.server.is_none() && !node.candidate;
    node.terminating && bare && node.cilium.is_some()
}

const fn because(what: Suspicion) -> Cause {
    match what {
        Suspicion::Unhealthy => Cause::NodeUnhealthy,
        Suspicion::Unprepared => Cause::NodeUnprepared,
    }
}

//! Elects the gateway, within the limits that keep the floating IP from flapping and unless a person has frozen
//! automation. How the floating IP is moved there is decided in `failover`.

use std::time::Duration;

use aplomb_api::egress::{MoveCause, Suspicion, annotations};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::assessment::current_holder;
use super::failover::MAX_FAST_LOCK_RETRIES;
use super::health::{GatewayHealth, HealthIssue, is_dead, is_promotable, removal_cause, suspicion};
use super::messages::add_span;
use crate::egress::{ActionState, CandidateNode, LabelState, Observed};

/// How many refused or locked Assigns to one server lead to another candidate.
pub(crate) const MAX_REFUSALS: u32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Election<'a> {
    Chosen(ElectedNode<'a>),
    /// The gateway has a problem and its grace period is running: nothing is done.
    Grace {
        node: &'a CandidateNode,
        trouble: HealthIssue,
    },
    /// The grace period of the gateway has ended, but the limit of moves is reached.
    Capped {
        node: &'a CandidateNode,
        trouble: HealthIssue,
        /// When it may be replaced.
        until: Timestamp,
    },
    NoneEligible,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ElectedNode<'a> {
    pub(super) node: &'a CandidateNode,
    /// Why it differs from the previous one, if it does.
    pub(super) cause: Option<MoveCause>,
    /// When the reason for that was first seen.
    pub(super) detected: Timestamp,
    /// When the pinned node may be chosen instead.
    pub(super) pinned_from: Option<Timestamp>,
}

pub(super) fn elect<'a>(
    world: &'a Observed,
    now: Timestamp,
    standings: &[(&'a CandidateNode, GatewayHealth)],
) -> Election<'a> {
    let incumbent = current_gateway(world, standings);
    if let Some(incumbent) = incumbent.filter(|node| !must_give_way(world, now, node)) {
        return Election::Chosen(confirmed_or_pinned(world, now, incumbent, standings));
    }
    let graces = standings.iter().filter_map(|(node, standing)| {
        let GatewayHealth::Grace(trouble) = standing else {
            return None;
        };
        Some((*node, trouble.clone()))
    });
    if let Some((node, trouble)) = graces.max_by_key(|(_, trouble)| trouble.ends) {
        return Election::Grace { node, trouble };
    }
    elect_successor(world, now, standings)
}

/// The gateway that may stay, if there is one; if several have the labels, the one that holds the floating IP.
fn current_gateway<'a>(
    world: &'a Observed,
    standings: &[(&'a CandidateNode, GatewayHealth)],
) -> Option<&'a CandidateNode> {
    let eligible = || {
        let standings = standings.iter();
        standings.filter(|(_, standing)| *standing == GatewayHealth::Eligible)
    };
    let named = |name: Option<&String>| {
        let mut nodes = eligible().map(|(node, _)| *node);
        nodes.find(|node| Some(&node.name) == name)
    };
    let holds = current_holder(world);
    named(holds.map(|node| &node.name))
        .or_else(|| named(world.status.active_node.as_ref()))
        .or_else(|| eligible().map(|(node, _)| *node).min_by_key(|n| &n.name))
}

/// `incumbent`, or the node to which a person moved or pinned the floating IP.
fn confirmed_or_pinned<'a>(
    world: &'a Observed,
    now: Timestamp,
    incumbent: &'a CandidateNode,
    standings: &[(&'a CandidateNode, GatewayHealth)],
) -> ElectedNode<'a> {
    let known = world.status.active_node.is_some();
    let moved = current_holder(world).filter(|node| known && is_promotable(&world.spec, node));
    let node = moved.unwrap_or(incumbent);
    let stays = ElectedNode {
        node,
        cause: (node.name != incumbent.name).then_some(MoveCause::Adopted),
        detected: now,
        pinned_from: None,
    };
    let eligible = |pinned: &CandidateNode| {
        let mut standings = standings.iter();
        standings.any(|(node, s)| node.name == pinned.name && *s == GatewayHealth::Eligible)
    };
    let pinned = pinned_node(world, now).filter(|node| node.name != stays.node.name);
    let pinned = pinned.filter(|node| eligible(node) || is_usable(world, node));
    match (pinned, dwell_end(world, now)) {
        (None, _) => stays,
        (Some(_), Some(until)) => ElectedNode {
            pinned_from: Some(until),
            ..stays
        },
        (Some(node), None) => ElectedNode {
            node,
            cause: Some(MoveCause::Pinned),
            ..stays
        },
    }
}

/// The pinned node, while the pin is valid.
fn pinned_node(world: &Observed, now: Timestamp) -> Option<&CandidateNode> {
    let pin = world.spec.pin.as_ref()?;
    if pin.until.as_ref().is_some_and(|until| until.0 <= now) {
        return None;
    }
    world.nodes.iter().find(|node| node.name == pin.node)
}

/// Whether the floating IP can be moved to `node`, as far as node state and provider refusals show.
fn is_usable(world: &Observed, node: &CandidateNode) -> bool {
    is_promotable(&world.spec, node) && !is_refused(world, node)
}

/// The same at this moment: no lock is in the way, and it was not passed over in this round.
fn is_unlocked(world: &Observed, node: &CandidateNode) -> bool {
    is_usable(world, node) && !was_skipped(world, node)
}

/// Whether the gateway lost the floating IP and cannot get it back, while another node could take it.
fn must_give_way(world: &Observed, now: Timestamp, node: &CandidateNode) -> bool {
    let declined = is_refused(world, node) || was_skipped(world, node);
    declined && next_candidate(world, now).is_some_and(|other| is_unlocked(world, other))
}

/// Whether `node` failed in this round, or met a lock too often.
fn was_skipped(world: &Observed, node: &CandidateNode) -> bool {
    let holds = current_holder(world).is_some_and(|holder| holder.name == node.name);
    // Late in a long round, take the first unlocked candidate instead of waiting for the others.
    let patient = world.floating_ip.troubles <= MAX_FAST_LOCK_RETRIES;
    let most = if patient { MAX_REFUSALS } else { 1 };
    let passed = world.moving.as_ref().is_some_and(|moving| {
        let locked = moving.node == node.name && moving.locks >= most;
        let before = node.server.is_some_and(|it| moving.skipped_servers.contains(&it));
        locked || before
    });
    passed && !holds
}

/// Whether the provider refused to move the floating IP to `node`.
fn is_refused(world: &Observed, node: &CandidateNode) -> bool {
    let holds = current_holder(world).is_some_and(|holder| holder.name == node.name);
    world.moving.as_ref().is_some_and(|moving| {
        let action = moving.action.as_ref().map(|action| &action.state);
        let failed = match action {
            None | Some(ActionState::Error(_)) => true,
            Some(ActionState::Running) => false,
            // The action reported success, but a read shows that the floating IP is elsewhere.
            Some(ActionState::Success) => moving.read_since && !holds,
        };
        moving.node == node.name && failed && moving.refusals >= MAX_REFUSALS
    })
}

/// The node that replaces a gateway that cannot stay.
fn elect_successor<'a>(
    world: &'a Observed,
    now: Timestamp,
    standings: &[(&'a CandidateNode, GatewayHealth)],
) -> Election<'a> {
    let gateway = failed_gateway(world, standings);
    if let Some((node, GatewayHealth::GraceExpired(trouble))) = gateway
        && !is_dead(&world.spec, node)
        && let Some(until) = cap_end(world, now)
    {
        let trouble = trouble.clone();
        return Election::Capped { node, trouble, until };
    }
    let (cause, detected) = match gateway {
        Some((_, GatewayHealth::GraceExpired(trouble))) => (cause_of(trouble.suspicion), trouble.since),
        Some((_, GatewayHealth::Unusable(cause))) => (*cause, now),
        _ => (absence_cause(world), now),
    };
    let Some(node) = next_candidate(world, now) else {
        return Election::NoneEligible;
    };
    Election::Chosen(ElectedNode {
        node,
        cause: Some(cause),
        detected,
        pinned_from: None,
    })
}

fn next_candidate(world: &Observed, now: Timestamp) -> Option<&CandidateNode> {
    let begun = world.status.moving.as_ref().map(|moving| &moving.to);
    let begun = world.nodes.iter().find(|node| Some(&node.name) == begun);
    let preferred = [pinned_node(world, now), current_holder(world), begun];
    let fits = |node: &&CandidateNode| is_unlocked(world, node);
    let mut preferred = preferred.into_iter().flatten();
    let lowest = |fits: &dyn Fn(&&CandidateNode) -> bool| {
        let nodes = world.nodes.iter().filter(|node| fits(node));
        nodes.min_by_key(|node| &node.name)
    };
    preferred
        .find(fits)
        .or_else(|| lowest(&fits))
        .or_else(|| lowest(&|node| is_promotable(&world.spec, node)))
}

/// Of the nodes with the labels, the one whose state explains the replacement.
fn failed_gateway<'a, 'b>(
    world: &Observed,
    standings: &'b [(&'a CandidateNode, GatewayHealth)],
) -> Option<(&'a CandidateNode, &'b GatewayHealth)> {
    let named = |name: Option<&String>| {
        let mut standings = standings.iter();
        standings.find(|(node, _)| Some(&node.name) == name)
    };
    named(current_holder(world).map(|node| &node.name))
        .or_else(|| named(world.status.active_node.as_ref()))
        .or_else(|| standings.iter().min_by_key(|(node, _)| &node.name))
        .map(|(node, standing)| (*node, standing))
}

fn absence_cause(world: &Observed) -> MoveCause {
    let Some(name) = world.status.active_node.as_ref() else {
        return MoveCause::Unassigned;
    };
    let Some(node) = world.nodes.iter().find(|node| &node.name == name) else {
        return MoveCause::NodeDeleted;
    };
    if is_cilium_only(node) {
        return MoveCause::NodeDeleted;
    }
    removal_cause(world, node)
        .or_else(|| suspicion(&world.spec, node).map(cause_of))
        .unwrap_or(MoveCause::Unassigned)
}

fn is_cilium_only(node: &CandidateNode) -> bool {
    let bare = node.labels == LabelState::None && node.server.is_none() && !node.candidate;
    node.terminating && bare && node.cilium.is_some()
}

const fn cause_of(what: Suspicion) -> MoveCause {
    match what {
        Suspicion::Unhealthy => MoveCause::NodeUnhealthy,
        Suspicion::Unprepared => MoveCause::NodeUnprepared,
    }
}

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

/// The earliest time for a move away from a gateway that has a problem but is not dead; `None` if now.
fn cap_end(world: &Observed, now: Timestamp) -> Option<Timestamp> {
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

/// Whether a move was within the last hour. One in the future was timed by a clock that was set back since.
fn is_within_window(moment: &Time, now: Timestamp) -> bool {
    moment.0 <= now && add_span(moment.0, CAP_WINDOW) > now
}

/// Automation is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActiveHold {
    /// Until when; without end if `None`.
    pub(super) until: Option<Timestamp>,
    /// Which hold it is, for people.
    pub(super) message: String,
}

/// The hold on `world` at `now`, by its spec or its annotation; of two, the one that ends later.
pub(super) fn active_hold(world: &Observed, now: Timestamp) -> Option<ActiveHold> {
    match (hold_from_spec(world, now), hold_from_annotation(world, now)) {
        (Some(one), Some(other)) if ends_later(&other, &one) => Some(other),
        (one, other) => one.or(other),
    }
}

fn ends_later(one: &ActiveHold, other: &ActiveHold) -> bool {
    match (one.until, other.until) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(one), Some(other)) => one > other,
    }
}

fn hold_from_spec(world: &Observed, now: Timestamp) -> Option<ActiveHold> {
    let hold = world.spec.hold.as_ref()?;
    let until = hold.until.as_ref().map(|time| time.0);
    if until.is_some_and(|until| until <= now) {
        return None;
    }
    let why = hold.reason.as_deref().unwrap_or("no reason given");
    Some(ActiveHold {
        until,
        message: hold_message("spec.hold", until, why),
    })
}

fn hold_from_annotation(world: &Observed, now: Timestamp) -> Option<ActiveHold> {
    let text = world.hold.as_deref()?.trim();
    let key = annotations::HOLD;
    if text.is_empty() || text.eq_ignore_ascii_case("false") {
        return None;
    }
    let forever = |why: &str| ActiveHold {
        until: None,
        message: hold_message(&format!("annotation {key}"), None, why),
    };
    if text.eq_ignore_ascii_case("true") {
        return Some(forever("remove it to resume"));
    }
    let Ok(until) = text.parse::<Timestamp>() else {
        let fix = format!(
            "cannot parse {text:?}, so nothing is moved: write true, false, or a time like \
             2026-01-31T18:00:00Z"
        );
        return Some(forever(&fix));
    };
    (until > now).then(|| ActiveHold {
        until: Some(until),
        message: hold_message(&format!("annotation {key}"), Some(until), "remove it to resume"),
    })
}

fn hold_message(who: &str, until: Option<Timestamp>, why: &str) -> String {
    match until {
        Some(until) => format!("{who} freezes automation until {until}: {why}"),
        None => format!("{who} freezes automation: {why}"),
    }
}

//! The status: times of events, never of reads, so that it does not change while nothing happens. And when to decide
//! again.

use std::time::Duration;

use aplomb_api::DurationString;
use aplomb_api::egress::{
    BudgetLevel, BudgetStatus, CandidateStatus, HealthSignal, MoveCause, MoveStages, MoveStatus, StableEgressStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::assessment::Assessment;
use super::conditions::cordoned_gateway;
use super::election::{ElectedNode, Election, drop_expired_moves, dwell_end};
use super::failover::{MoveStep, may_move, move_cause, settle_labels};
use super::health;
use super::health::{GatewayHealth, is_promotable};
use super::messages::{add_span, elapsed_between, to_millis_span};
use crate::egress::{ActionState, CandidateNode, LabelState, Observed, RemainingCalls};

/// The status for `scene`, without next check and budget.
pub(super) fn build_status(scene: &Assessment<'_>) -> StableEgressStatus {
    let mut status = scene.observed.status.clone();
    if let Some(moving) = status.moving.as_mut().filter(|moving| !moving.overdue) {
        // If the clock was set back, the deadline must not move further away.
        moving.decided.0 = moving.decided.0.min(scene.now);
    }
    status.suspects = health::suspects(&scene.gateway_health);
    status.candidates = candidate_status(scene);
    status.elsewhere_since = scene.foreign.map(|e| MicroTime(e.since));
    if let Some(seen) = &scene.observed.floating_ip.observed {
        status.ip = Some(seen.ip.to_string());
        status.floating_ip_id = Some(seen.id);
        status.server_id = seen.server;
    }
    match &scene.election {
        Election::Chosen(choice) if !scene.is_frozen() => record_elected(scene, choice, &mut status),
        _ if is_assign_in_flight(scene) => {}
        _ => status.moving = None,
    }
    if status.active_node.is_none()
        && let Some(node) = cordoned_gateway(scene)
    {
        // No node was elected, but this one still carries traffic.
        status.active_node = Some(node.name.clone());
        status.active_was_candidate = node.candidate;
    }
    if let Some(moving) = &mut status.moving {
        let deadline = add_span(moving.decided.0, scene.observed.spec.move_deadline.0);
        moving.overdue = moving.overdue || scene.now > deadline;
    }
    status
}

/// Whether an Assign is in flight, whichever node is elected now.
fn is_assign_in_flight(scene: &Assessment<'_>) -> bool {
    let moving = scene.observed.moving.as_ref();
    moving.is_some_and(|moving| {
        let action = moving.action.as_ref().map(|action| &action.state);
        action == Some(&ActionState::Running) || !moving.read_since
    })
}

fn candidate_status(scene: &Assessment<'_>) -> CandidateStatus {
    let nodes = scene.observed.nodes.iter().filter(|node| node.candidate);
    let (mut total, mut ready) = (0, 0);
    for node in nodes {
        total += 1;
        ready += u32::from(can_hold(scene, node));
    }
    CandidateStatus { total, ready }
}

/// Whether `node` could hold the floating IP now, as the gateway or as a standby.
pub(super) fn can_hold(scene: &Assessment<'_>, node: &CandidateNode) -> bool {
    let mut standings = scene.gateway_health.iter();
    let eligible = standings.any(|(other, s)| other.name == node.name && *s == GatewayHealth::Eligible);
    eligible || is_promotable(&scene.observed.spec, node)
}

/// Whether the floating IP is known to be on `node`.
pub(super) fn is_confirmed(scene: &Assessment<'_>, node: &CandidateNode) -> bool {
    let seen = scene.observed.floating_ip.observed.as_ref();
    let holds = seen.is_some_and(|seen| seen.server.is_some() && seen.server == node.server);
    let moving = scene.observed.moving.as_ref();
    let doubted = moving.is_some_and(|moving| !moving.read_since);
    holds && !doubted
}

fn record_elected(scene: &Assessment<'_>, choice: &ElectedNode<'_>, status: &mut StableEgressStatus) {
    let node = choice.node;
    let sent = scene.observed.moving.as_ref();
    if is_assign_in_flight(scene) && sent.is_some_and(|moving| moving.node != node.name) {
        // The move in flight is completed first; the election may change until then.
        return;
    }
    let confirmed = is_confirmed(scene, node);
    let known = scene.observed.floating_ip.observed.is_some();
    let away = known && !confirmed && may_move(scene, choice);
    let before = status.active_node.as_ref();
    let followed = confirmed && before.is_some_and(|before| *before != node.name);
    let begun = status.moving.is_some();
    if away || followed || (begun && confirmed) {
        let moving = current_move(scene, choice, status.moving.take(), followed);
        status.moving = Some(record_stages(scene, node, moving, confirmed));
    } else if !is_assign_in_flight(scene) {
        status.moving = None;
    }
    if confirmed && settle_labels(scene, node).is_none() {
        record_settled(scene, node, status);
    }
}

/// The move to the elected node; the one in progress if there is one.
fn current_move(
    scene: &Assessment<'_>,
    choice: &ElectedNode<'_>,
    begun: Option<MoveStatus>,
    followed: bool,
) -> MoveStatus {
    let to = &choice.node.name;
    match begun {
        Some(begun) if begun.to == *to => return begun,
        Some(begun) => {
            // The target changed, but the reason and the time it was detected are the same.
            let stages = MoveStages {
                decide: begun.stages.decide,
                ..MoveStages::default()
            };
            return MoveStatus {
                to: to.clone(),
                stages,
                ..begun
            };
        }
        None => {}
    }
    let cause = match move_cause(scene, choice) {
        MoveCause::Unassigned if followed => MoveCause::Adopted,
        cause => cause,
    };
    MoveStatus {
        from: scene.observed.status.active_node.clone().filter(|from| from != to),
        to: to.clone(),
        cause,
        detected: MicroTime(choice.detected),
        decided: MicroTime(scene.now),
        ended: None,
        unlabelled_since: None,
        overdue: false,
        stages: MoveStages {
            decide: Some(to_millis_span(elapsed_between(choice.detected, scene.now))),
            ..MoveStages::default()
        },
    }
}

fn record_stages(scene: &Assessment<'_>, node: &CandidateNode, mut moving: MoveStatus, confirmed: bool) -> MoveStatus {
    let accepted = scene.observed.moving.as_ref();
    let accepted = accepted.is_some_and(|m| m.node == node.name && m.action.is_some());
    let elapsed = elapsed_between(moving.decided.0, scene.now);
    let stages = &mut moving.stages;
    if accepted || confirmed {
        stages.accept.get_or_insert(to_millis_span(elapsed));
    }
    let so_far = |parts: [Option<aplomb_api::DurationString>; 2]| {
        let parts = parts.into_iter().flatten().map(|part| part.0).sum();
        to_millis_span(elapsed.saturating_sub(parts))
    };
    if confirmed {
        let rest = so_far([stages.accept, None]);
        stages.assign.get_or_insert(rest);
    }
    if confirmed && node.labels == LabelState::All {
        let rest = so_far([stages.accept, stages.assign]);
        stages.label.get_or_insert(rest);
    }
    if scene.gateway_health.is_empty() {
        moving.unlabelled_since.get_or_insert(MicroTime(scene.now));
    } else if let Some(since) = moving.unlabelled_since.take() {
        stages.unlabelled = Some(to_millis_span(elapsed_between(since.0, scene.now)));
    }
    moving
}

/// The elected node holds the floating IP and the labels, and no other node has labels.
fn record_settled(scene: &Assessment<'_>, node: &CandidateNode, status: &mut StableEgressStatus) {
    let was = status.active_node.as_ref() == Some(&node.name) && status.active_was_candidate;
    status.active_was_candidate = was || node.candidate;
    status.active_node = Some(node.name.clone());
    let Some(mut moving) = status.moving.take() else {
        return;
    };
    let now = scene.now;
    moving.ended = Some(MicroTime(now));
    moving.stages.unlabelled.get_or_insert_default();
    moving.stages.total = Some(to_millis_span(elapsed_between(moving.detected.0, now)));
    let deadline = add_span(moving.decided.0, scene.observed.spec.move_deadline.0);
    moving.overdue = moving.overdue || now > deadline;
    if moving.cause != MoveCause::Adopted {
        drop_expired_moves(&mut status.recent_moves, now);
        status.recent_moves.push(Time(whole_second(now)));
    }
    status.last_move = Some(moving);
}

/// `moment` at the precision of a Kubernetes `Time`.
fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

const MIN_WAIT: Duration = Duration::from_millis(10);

/// How long until the next decision if nothing changes.
pub(super) fn requeue_after(scene: &Assessment<'_>, next: &MoveStep) -> Duration {
    let world = scene.observed;
    let routine = match next {
        MoveStep::Do(_) => Duration::ZERO,
        MoveStep::Wait(wait) => *wait,
        MoveStep::Idle => world.floating_ip.resync,
    };
    let ends = next_expiry(scene).map(|end| elapsed_between(scene.now, end));
    let probes = world.spec.health.signal == HealthSignal::Probe;
    let probe = probes.then_some(world.spec.health.probe.interval.0);
    let soonest = [Some(routine), ends, probe].into_iter().flatten().min();
    soonest.unwrap_or(routine).max(MIN_WAIT)
}

/// The next check as the status reports it.
pub(super) fn next_check_message(scene: &Assessment<'_>) -> String {
    if let Some(end) = next_expiry(scene) {
        return end.to_string();
    }
    let (asked, now) = (scene.observed.spec.resync.0, scene.observed.floating_ip.resync);
    let times = now.as_millis().div_ceil(asked.as_millis().max(1)).max(1);
    let times = u32::try_from(times).unwrap_or(u32::MAX);
    format!("every {}", DurationString(asked.saturating_mul(times)))
}

/// The next time at which a period ends.
fn next_expiry(scene: &Assessment<'_>) -> Option<Timestamp> {
    let world = scene.observed;
    let held = scene.held.as_ref().and_then(|held| held.until);
    let election = match &scene.election {
        Election::Grace { trouble, .. } => Some(trouble.ends),
        Election::Capped { until, .. } => Some(*until),
        Election::Chosen(choice) => choice.pinned_from,
        Election::NoneEligible => None,
    };
    let respected = scene.foreign.map(|elsewhere| {
        let dwells = dwell_end(world, scene.now);
        dwells.map_or(elsewhere.until, |until| until.max(elsewhere.until))
    });
    let pin = world.spec.pin.as_ref().and_then(|pin| pin.until.as_ref());
    let moving = world.status.moving.as_ref().filter(|moving| !moving.overdue);
    let deadline = moving.map(|moving| {
        let decided = moving.decided.0.min(scene.now);
        add_span(decided, world.spec.move_deadline.0)
    });
    let ends = [held, election, respected, pin.map(|t| t.0), deadline];
    ends.into_iter().flatten().filter(|t| *t > scene.now).min()
}

/// `status` with the rate limit. The figures are those of the last change of level or of the last change of any other
/// field.
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

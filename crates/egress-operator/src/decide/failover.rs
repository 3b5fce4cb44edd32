//! The next step toward the elected node: assign, wait for the action, read who holds the floating IP, then move the
//! labels. After an ambiguous result, read before repeating anything. Two nodes never have the gateway labels, and the
//! last node keeps them until the floating IP is known to be elsewhere. Waits stay near one refill tick of the rate
//! limit, because a client that waits for minutes misses the next free token.

use std::time::Duration;

use aplomb_api::egress::MoveCause;

use super::assessment::Assessment;
use super::election::{ElectedNode, Election, MAX_REFUSALS, dwell_end};
use super::{LabelTarget, Step};
use crate::egress::{
    ActionState, CandidateNode, LabelState, MoveInProgress, Observed, ObservedAction, ObservedFloatingIp,
    ProviderTrouble,
};

/// How long an action is waited for.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How often the holder is read while an action is stuck.
const STUCK_READ_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum MoveStep {
    Do(Step),
    /// Something is due after this time.
    Wait(Duration),
    /// Nothing to do until something changes.
    Idle,
}

impl MoveStep {
    pub(super) fn step(self) -> Option<Step> {
        match self {
            Self::Do(step) => Some(step),
            Self::Wait(_) | Self::Idle => None,
        }
    }
}

pub(super) fn next_step(scene: &Assessment<'_>) -> MoveStep {
    if let Some(next) = finish_assign(scene) {
        return next;
    }
    if scene.is_waiting() {
        return MoveStep::Idle;
    }
    let next = match &scene.election {
        Election::Chosen(choice) if !scene.is_frozen() => move_to(scene, choice),
        _ => MoveStep::Idle,
    };
    match next {
        MoveStep::Idle => routine_step(scene),
        next => next,
    }
}

/// Steps that are due without a move: the routine read, and this leader's term. The read comes first, so that a refused
/// or hanging write never delays it.
fn routine_step(scene: &Assessment<'_>) -> MoveStep {
    match (routine_read(scene), term_step(scene)) {
        (MoveStep::Wait(_), claim @ MoveStep::Do(_)) => claim,
        (MoveStep::Wait(look), MoveStep::Wait(claim)) => MoveStep::Wait(look.min(claim)),
        (look, _) => look,
    }
}

/// What an accepted or possibly accepted Assign needs before anything else.
fn finish_assign(scene: &Assessment<'_>) -> Option<MoveStep> {
    let moving = scene.observed.moving.as_ref()?;
    let read = || Some(paced_step(scene, Step::Read { urgent: true }));
    match &moving.action {
        Some(action) if action.state == ActionState::Running => {
            if !is_stuck(scene, action) {
                return Some(poll_action(scene, action));
            }
            let seen = scene.observed.floating_ip.observed.as_ref();
            let looked = seen.is_some_and(|seen| {
                let age = scene.observed.uptime.saturating_sub(seen.at);
                seen.at >= action.accepted_at + STUCK_AFTER && age < STUCK_READ_INTERVAL
            });
            if looked { None } else { read() }
        }
        _ if !moving.read_since || is_ambiguous(scene) => read(),
        _ => None,
    }
}

/// Whether the last call may have had an effect, or its refusal shows that the provider's state has changed. A
/// successful read clears it.
const fn is_ambiguous(scene: &Assessment<'_>) -> bool {
    matches!(
        scene.observed.floating_ip.trouble,
        Some(
            ProviderTrouble::Refused(_)
                | ProviderTrouble::ActionFailed(_)
                | ProviderTrouble::Unreachable(_)
                | ProviderTrouble::NotFound
        )
    )
}

fn is_stuck(scene: &Assessment<'_>, action: &ObservedAction) -> bool {
    scene.observed.uptime >= action.accepted_at + STUCK_AFTER
}

fn poll_action(scene: &Assessment<'_>, action: &ObservedAction) -> MoveStep {
    let due = action.polled_at + poll_interval(action.polls);
    let wait = due.saturating_sub(scene.observed.uptime);
    let wait = wait.max(move_wait(scene.observed));
    let step = Step::Poll { action: action.id };
    delayed_step(wait, step)
}

/// What brings the floating IP and the labels to the elected node.
fn move_to(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> MoveStep {
    let Some(seen) = scene.observed.floating_ip.observed.as_ref() else {
        return first_read(scene, choice);
    };
    if scene.has_newer_term() {
        // The stand-down is soon forgotten, which would stop a move halfway.
        if !scene.term_write_failed() {
            return paced_step(scene, Step::WriteTerm);
        }
        // If the provider refuses the term label, the address still moves.
        if let claim @ MoveStep::Do(_) = retry_term(scene) {
            return claim;
        }
    }
    if let Some(step) = remove_surplus_labels(scene, choice.node) {
        // A label write that keeps failing must not hold up the read that is due.
        return match routine_read(scene) {
            look @ MoveStep::Do(_) => look,
            _ => MoveStep::Do(step),
        };
    }
    if seen.server == choice.node.server {
        return match settle_labels(scene, choice.node) {
            Some(_) if !is_fresh(scene, seen) => paced_step(scene, Step::Read { urgent: true }),
            Some(step) => MoveStep::Do(step),
            None => MoveStep::Idle,
        };
    }
    if !may_move(scene, choice) {
        return MoveStep::Idle;
    }
    assign_step(scene, seen, choice)
}

/// The first read of this process. It is urgent if an existing gateway cannot stay.
fn first_read(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> MoveStep {
    let active = scene.observed.status.active_node.as_ref();
    let urgent = active.is_some_and(|active| *active != choice.node.name);
    if urgent {
        return paced_step(scene, Step::Read { urgent });
    }
    routine_read(scene)
}

/// Whether a floating IP that is elsewhere may be moved to the elected node now.
pub(super) fn may_move(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> bool {
    let Some(elsewhere) = scene.foreign else {
        return true;
    };
    let respected = scene.now < elsewhere.until;
    let dwells = choice.cause.is_none() && dwell_end(scene.observed, scene.now).is_some();
    !respected && !dwells
}

fn assign_step(scene: &Assessment<'_>, seen: &ObservedFloatingIp, choice: &ElectedNode<'_>) -> MoveStep {
    let stands = scene.is_throttled() && !scene.is_stale();
    if !is_fresh(scene, seen) && !stands {
        return paced_step(scene, Step::Read { urgent: true });
    }
    let Some(server) = choice.node.server else {
        return MoveStep::Idle;
    };
    let moving = scene.observed.moving.as_ref();
    let failed = moving.and_then(|moving| last_failure(moving, server));
    if let Some((at, ProviderTrouble::Refused(_))) = failed
        && seen.at < at + TICK
    {
        // A read may lag behind the action; a second one a tick later is reliable.
        let wait = (at + TICK).saturating_sub(scene.observed.uptime);
        let wait = wait.max(move_wait(scene.observed));
        return delayed_step(wait, Step::Read { urgent: true });
    }
    let step = Step::Assign {
        node: choice.node.name.clone(),
        server,
        cause: move_cause(scene, choice),
    };
    let wait = failed.map_or(Duration::ZERO, |(at, trouble)| {
        action_wait(scene.observed, at, &trouble)
    });
    delayed_step(wait.max(move_wait(scene.observed)), step)
}

/// When the last action failed, and how. An action that reported success but did not move the floating IP to `server`
/// failed too.
fn last_failure(moving: &MoveInProgress, server: i64) -> Option<(Duration, ProviderTrouble)> {
    let action = moving.action.as_ref()?;
    let trouble = match &action.state {
        ActionState::Error(code) => ProviderTrouble::ActionFailed(code.clone()),
        ActionState::Success if moving.server == server => ProviderTrouble::Refused("no_effect".to_owned()),
        ActionState::Running | ActionState::Success => return None,
    };
    Some((action.polled_at, trouble))
}

/// Why the floating IP is moved to the elected node.
pub(super) fn move_cause(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> MoveCause {
    let begun = scene.observed.status.moving.as_ref();
    if let Some(begun) = begun.filter(|begun| begun.to == choice.node.name) {
        return begun.cause;
    }
    match (choice.cause, scene.foreign) {
        (Some(cause), _) => cause,
        (None, Some(_)) => MoveCause::TakenBack,
        (None, None) => MoveCause::Unassigned,
    }
}

/// Whether a read is recent enough to act on: within one resync, or since this move began.
fn is_fresh(scene: &Assessment<'_>, seen: &ObservedFloatingIp) -> bool {
    let world = scene.observed;
    let age = world.uptime.saturating_sub(seen.at);
    let looked = world.moving.as_ref().is_some_and(|moving| moving.read_since);
    // Locks and refused tokens may last, and a person may move the address meanwhile.
    let trouble = world.floating_ip.trouble.as_ref();
    let lasting = matches!(trouble, Some(ProviderTrouble::Locked | ProviderTrouble::Unauthorized));
    let looked = looked && !lasting && !scene.is_stale();
    age <= world.floating_ip.resync + world.floating_ip.resync / 8 || looked
}

/// Writes this leader's term to the floating IP, after everything else.
fn term_step(scene: &Assessment<'_>) -> MoveStep {
    let world = scene.observed;
    let (Election::Chosen(choice), Some(seen)) = (&scene.election, &world.floating_ip.observed) else {
        return MoveStep::Idle;
    };
    let written = world.term == 0 || seen.term == world.term;
    if scene.is_frozen() || written || seen.server != choice.node.server {
        return MoveStep::Idle;
    }
    retry_term(scene)
}

fn retry_term(scene: &Assessment<'_>) -> MoveStep {
    let due = next_term_write_at(scene.observed);
    delayed_step(due.saturating_sub(scene.observed.uptime), Step::WriteTerm)
}

fn routine_read(scene: &Assessment<'_>) -> MoveStep {
    let due = next_read_at(scene.observed);
    let wait = due.saturating_sub(scene.observed.uptime);
    delayed_step(wait, Step::Read { urgent: false })
}

/// `step`, once the pause after the last failure is over.
fn paced_step(scene: &Assessment<'_>, step: Step) -> MoveStep {
    delayed_step(move_wait(scene.observed), step)
}

fn delayed_step(wait: Duration, step: Step) -> MoveStep {
    if wait.is_zero() {
        return MoveStep::Do(step);
    }
    MoveStep::Wait(wait)
}

/// Which labels to remove because several nodes have them: all but one node's, wherever the floating IP is.
fn remove_surplus_labels(scene: &Assessment<'_>, chosen: &CandidateNode) -> Option<Step> {
    let labelled = || scene.gateway_health.iter().map(|(node, _)| *node);
    if labelled().count() < 2 {
        return None;
    }
    let seen = scene.observed.floating_ip.observed.as_ref();
    let holds = |node: &&CandidateNode| seen.is_some_and(|s| s.server.is_some() && s.server == node.server);
    let kept = labelled()
        .find(|node| node.name == chosen.name)
        .or_else(|| labelled().find(holds))
        .or_else(|| labelled().min_by_key(|node| &node.name))?;
    let mut wrong = labelled().filter(|node| node.name != kept.name);
    wrong.next().and_then(strip_label)
}

/// The remaining label changes once `chosen` holds the floating IP.
pub(super) fn settle_labels(scene: &Assessment<'_>, chosen: &CandidateNode) -> Option<Step> {
    let others = scene.observed.nodes.iter();
    let others = others.filter(|node| node.name != chosen.name);
    others
        .map(strip_label)
        .find(Option::is_some)
        .flatten()
        .or_else(|| add_label(chosen))
}

fn strip_label(node: &CandidateNode) -> Option<Step> {
    let on = if node.labels != LabelState::None {
        LabelTarget::Node
    } else if node.cilium.is_some_and(|labels| labels != LabelState::None) {
        // The agent of a dead node never removes it.
        LabelTarget::CiliumNode
    } else {
        return None;
    };
    let node = node.name.clone();
    Some(Step::Strip { node, on })
}

fn add_label(node: &CandidateNode) -> Option<Step> {
    let on = if node.labels != LabelState::All {
        LabelTarget::Node
    } else if node.cilium.is_some_and(|labels| labels != LabelState::All) {
        LabelTarget::CiliumNode
    } else {
        return None;
    };
    let node = node.name.clone();
    Some(Step::Label { node, on })
}

/// Refill interval of a rate limit of 3,600 per hour.
const TICK: Duration = Duration::from_secs(1);
const MAX_MOVE_WAIT: Duration = Duration::from_secs(5);
/// How many attempts at a lock are made before they become rarer.
pub(super) const MAX_FAST_LOCK_RETRIES: u32 = 30;
/// The longest wait between two refused writes of a leader's term.
const MAX_TERM_WAIT: Duration = Duration::from_secs(600);
/// Jitter of waits, so that several clients do not retry at the same moment.
const SPREAD_MILLIS: u64 = 250;

/// How long to wait after the last failure before a move retries.
fn retry_delay(world: &Observed, trouble: &ProviderTrouble) -> Duration {
    if let (ProviderTrouble::Throttled, Some(pace)) = (trouble, world.floating_ip.retry_delay) {
        return pace;
    }
    let refusals = world.moving.as_ref().map_or(0, |moving| moving.refusals);
    let times = world.floating_ip.troubles.max(refusals).max(1);
    // Either one server refuses again and again, or several in turn.
    let always = refusals >= 2 * MAX_REFUSALS || (refusals >= MAX_REFUSALS && times >= 4 * MAX_REFUSALS);
    let grown = TICK * 2_u32.saturating_pow(times.min(8) - 1);
    let pause = match trouble {
        ProviderTrouble::Throttled => TICK,
        // Locks end within seconds; one that lasts must not use up the budget.
        ProviderTrouble::Locked if times <= MAX_FAST_LOCK_RETRIES => TICK,
        ProviderTrouble::Locked => MAX_MOVE_WAIT,
        // A repeated refusal is permanent and must not use up the budget.
        ProviderTrouble::Refused(_) if always => world.floating_ip.resync.max(MAX_MOVE_WAIT),
        ProviderTrouble::Unreachable(_) | ProviderTrouble::ActionFailed(_) | ProviderTrouble::Refused(_) => {
            grown.min(MAX_MOVE_WAIT)
        }
        // Only a person can fix this, and their change triggers a reconcile.
        ProviderTrouble::NoToken(_) | ProviderTrouble::Unauthorized | ProviderTrouble::NotFound => {
            world.floating_ip.resync
        }
    };
    let spread = object_rng(world, u64::from(times)).u64(0..SPREAD_MILLIS);
    pause + Duration::from_millis(spread)
}

/// How long a move must wait before its next call.
fn move_wait(world: &Observed) -> Duration {
    let cloud = &world.floating_ip;
    let (Some(trouble), Some(at)) = (&cloud.trouble, cloud.trouble_at) else {
        return Duration::ZERO;
    };
    (at + retry_delay(world, trouble)).saturating_sub(world.uptime)
}

/// How long a move must wait after an action that failed at `at`.
fn action_wait(world: &Observed, at: Duration, trouble: &ProviderTrouble) -> Duration {
    (at + retry_delay(world, trouble)).saturating_sub(world.uptime)
}

/// Pause between two polls of an action. Most actions end in seconds; the others must not use up the budget.
fn poll_interval(polls: u32) -> Duration {
    let millis = match polls {
        0..8 => 500,
        8..16 => 1_000,
        _ => 2_000,
    };
    Duration::from_millis(millis)
}

/// Time of the next routine read, in this process's time. Jitter only adds to it: the maximum number of reads per hour
/// is documented.
pub(super) fn next_read_at(world: &Observed) -> Duration {
    let cloud = &world.floating_ip;
    let seen = cloud.observed.as_ref().map(|seen| seen.at);
    let Some(last) = seen.max(cloud.trouble_at) else {
        return Duration::ZERO;
    };
    let millis = u64::try_from(cloud.resync.as_millis()).unwrap_or(u64::MAX);
    let salt = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
    let spread = object_rng(world, salt).u64(0..=millis / 10);
    let due = last + cloud.resync + Duration::from_millis(spread);
    due.max(cloud.next_read_at.unwrap_or_default())
}

/// Time of the next write of this leader's term, in this process's time: at once, one resync after another call failed,
/// and less and less often while the write itself fails. A read always comes in between, because a write without a
/// response may have been applied.
fn next_term_write_at(world: &Observed) -> Duration {
    let cloud = &world.floating_ip;
    // After the read that is due then, with its jitter.
    let answered = cloud.trouble_at.map(|at| at + cloud.resync + cloud.resync / 8);
    let accepted = cloud.term_failure.as_ref().map(|failed| {
        let grown = cloud.resync * 2_u32.saturating_pow(failed.failures.clamp(1, 5));
        failed.at + grown.min(cloud.resync.max(MAX_TERM_WAIT))
    });
    answered.max(accepted).unwrap_or_default()
}

/// Random numbers that depend only on this object and `salt`, the same in every process.
fn object_rng(world: &Observed, salt: u64) -> fastrand::Rng {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = world
        .name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(PRIME));
    fastrand::Rng::with_seed(hash ^ salt.wrapping_mul(PRIME))
}

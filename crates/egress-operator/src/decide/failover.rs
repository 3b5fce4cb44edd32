//! The next step toward the elected node: assign, wait for the action, read who holds the floating
//! IP, then move the labels. After an ambiguous result, read before repeating anything.

use std::time::Duration;

use aplomb_api::egress::MoveCause;

use super::assessment::Assessment;
use super::election::{ElectedNode, Election};
use super::limits::dwell_end;
use super::{labels, pace};
use crate::world::{ActionState, MoveInProgress, ObservedAction, ObservedFloatingIp, ProviderTrouble, Step};

/// How long an action is waited for.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How often the holder is read while an action is stuck.
const STUCK_READ_INTERVAL: Duration = Duration::from_secs(10);

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MoveStep {
    /// Take this step.
    Do(Step),
    /// Something is due after this time.
    Wait(Duration),
    /// Nothing to do until something changes.
    Idle,
}

impl MoveStep {
    /// The step to take now.
    pub(super) fn step(self) -> Option<Step> {
        match self {
            Self::Do(step) => Some(step),
            Self::Wait(_) | Self::Idle => None,
        }
    }
}

/// What to do next in `scene`.
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

/// Steps that are due without a move: the routine read, and this leader's term. The read comes
/// first, so that a refused or hanging write never delays it.
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

/// Whether the last call may have had an effect, or its refusal shows that the provider's state has
/// changed. A successful read clears it.
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
    let due = action.polled_at + pace::poll_interval(action.polls);
    let wait = due.saturating_sub(scene.observed.uptime);
    let wait = wait.max(pace::move_wait(scene.observed));
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
    if let Some(step) = labels::remove_surplus_labels(scene, choice.node) {
        // A label write that keeps failing must not hold up the read that is due.
        return match routine_read(scene) {
            look @ MoveStep::Do(_) => look,
            _ => MoveStep::Do(step),
        };
    }
    if seen.server == choice.node.server {
        return match labels::settle_labels(scene, choice.node) {
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
        && seen.at < at + pace::TICK
    {
        // A read may lag behind the action; a second one a tick later is reliable.
        let wait = (at + pace::TICK).saturating_sub(scene.observed.uptime);
        let wait = wait.max(pace::move_wait(scene.observed));
        return delayed_step(wait, Step::Read { urgent: true });
    }
    let step = Step::Assign {
        node: choice.node.name.clone(),
        server,
        cause: move_cause(scene, choice),
    };
    let wait = failed.map_or(Duration::ZERO, |(at, trouble)| {
        pace::action_wait(scene.observed, at, &trouble)
    });
    delayed_step(wait.max(pace::move_wait(scene.observed)), step)
}

/// When the last action failed, and how. An action that reported success but did not move the
/// floating IP to `server` failed too.
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
    let due = pace::next_term_write_at(scene.observed);
    delayed_step(due.saturating_sub(scene.observed.uptime), Step::WriteTerm)
}

/// The routine read that is due.
fn routine_read(scene: &Assessment<'_>) -> MoveStep {
    let due = pace::next_read_at(scene.observed);
    let wait = due.saturating_sub(scene.observed.uptime);
    delayed_step(wait, Step::Read { urgent: false })
}

/// `step`, once the pause after the last failure is over.
fn paced_step(scene: &Assessment<'_>, step: Step) -> MoveStep {
    delayed_step(pace::move_wait(scene.observed), step)
}

fn delayed_step(wait: Duration, step: Step) -> MoveStep {
    if wait.is_zero() {
        return MoveStep::Do(step);
    }
    MoveStep::Wait(wait)
}

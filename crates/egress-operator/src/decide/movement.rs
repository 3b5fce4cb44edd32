//! The next step toward the elected node: assign, wait for the action, read who holds the floating
//! IP, then move the labels. After an ambiguous result, read before repeating anything.

use std::time::Duration;

use aplomb_api::egress::MoveCause;

use super::election::{ElectedNode, Election};
use super::limits::dwells_until;
use super::scene::Assessment;
use super::{labels, pace};
use crate::world::{
    ActionState, MoveInProgress, ObservedAction, ObservedFloatingIp, ProviderTrouble, Step,
};

/// How long an action is waited for.
const STUCK: Duration = Duration::from_secs(60);
/// How often the holder is read while an action is stuck.
const STUCK_LOOK: Duration = Duration::from_secs(10);

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MoveStep {
    /// Take this step.
    Do(Step),
    /// Something is due after this time.
    Wait(Duration),
    /// Nothing to do until something changes.
    Rest,
}

impl MoveStep {
    /// The step to take now.
    pub(super) fn step(self) -> Option<Step> {
        match self {
            Self::Do(step) => Some(step),
            Self::Wait(_) | Self::Rest => None,
        }
    }
}

/// What to do next in `scene`.
pub(super) fn next(scene: &Assessment<'_>) -> MoveStep {
    if let Some(next) = see_through(scene) {
        return next;
    }
    if scene.waiting() {
        return MoveStep::Rest;
    }
    let next = match &scene.election {
        Election::Chosen(choice) if !scene.frozen() => toward(scene, choice),
        _ => MoveStep::Rest,
    };
    match next {
        MoveStep::Rest => routine(scene),
        next => next,
    }
}

/// Steps that are due without a move: the routine read, and this leader's term. The read comes
/// first, so that a refused or hanging write never delays it.
fn routine(scene: &Assessment<'_>) -> MoveStep {
    match (look(scene), claim(scene)) {
        (MoveStep::Wait(_), claim @ MoveStep::Do(_)) => claim,
        (MoveStep::Wait(look), MoveStep::Wait(claim)) => MoveStep::Wait(look.min(claim)),
        (look, _) => look,
    }
}

/// What an accepted or possibly accepted Assign needs before anything else.
fn see_through(scene: &Assessment<'_>) -> Option<MoveStep> {
    let moving = scene.world.moving.as_ref()?;
    let read = || Some(paced(scene, Step::Read { urgent: true }));
    match &moving.action {
        Some(action) if action.state == ActionState::Running => {
            if !is_stuck(scene, action) {
                return Some(poll(scene, action));
            }
            let seen = scene.world.cloud.seen.as_ref();
            let looked = seen.is_some_and(|seen| {
                let age = scene.world.uptime.saturating_sub(seen.at);
                seen.at >= action.accepted + STUCK && age < STUCK_LOOK
            });
            if looked { None } else { read() }
        }
        _ if !moving.looked || doubtful(scene) => read(),
        _ => None,
    }
}

/// Whether the last call may have had an effect, or its refusal shows that the provider's state has
/// changed. A successful read clears it.
const fn doubtful(scene: &Assessment<'_>) -> bool {
    matches!(
        scene.world.cloud.trouble,
        Some(
            ProviderTrouble::Refused(_)
                | ProviderTrouble::ActionFailed(_)
                | ProviderTrouble::Unreachable(_)
                | ProviderTrouble::NotFound
        )
    )
}

fn is_stuck(scene: &Assessment<'_>, action: &ObservedAction) -> bool {
    scene.world.uptime >= action.accepted + STUCK
}

fn poll(scene: &Assessment<'_>, action: &ObservedAction) -> MoveStep {
    let due = action.polled + pace::between_polls(action.polls);
    let wait = due.saturating_sub(scene.world.uptime);
    let wait = wait.max(pace::wait(scene.world));
    let step = Step::Poll { action: action.id };
    after(wait, step)
}

/// What brings the floating IP and the labels to the elected node.
fn toward(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> MoveStep {
    let Some(seen) = scene.world.cloud.seen.as_ref() else {
        return first_look(scene, choice);
    };
    if scene.newer_term() {
        // The stand-down is soon forgotten, which would stop a move halfway.
        if !scene.claim_failed() {
            return paced(scene, Step::Claim);
        }
        // If the provider refuses the term label, the address still moves.
        if let claim @ MoveStep::Do(_) = claim_again(scene) {
            return claim;
        }
    }
    if let Some(step) = labels::surplus(scene, choice.node) {
        // A label write that keeps failing must not hold up the read that is due.
        return match look(scene) {
            look @ MoveStep::Do(_) => look,
            _ => MoveStep::Do(step),
        };
    }
    if seen.server == choice.node.server {
        return match labels::settle(scene, choice.node) {
            Some(_) if !fresh(scene, seen) => paced(scene, Step::Read { urgent: true }),
            Some(step) => MoveStep::Do(step),
            None => MoveStep::Rest,
        };
    }
    if !may_move(scene, choice) {
        return MoveStep::Rest;
    }
    assign(scene, seen, choice)
}

/// The first read of this process. It is urgent if an existing gateway cannot stay.
fn first_look(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> MoveStep {
    let active = scene.world.status.active_node.as_ref();
    let urgent = active.is_some_and(|active| *active != choice.node.name);
    if urgent {
        return paced(scene, Step::Read { urgent });
    }
    look(scene)
}

/// Whether a floating IP that is elsewhere may be moved to the elected node now.
pub(super) fn may_move(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> bool {
    let Some(elsewhere) = scene.elsewhere else {
        return true;
    };
    let respected = scene.now < elsewhere.until;
    let dwells = choice.cause.is_none() && dwells_until(scene.world, scene.now).is_some();
    !respected && !dwells
}

fn assign(scene: &Assessment<'_>, seen: &ObservedFloatingIp, choice: &ElectedNode<'_>) -> MoveStep {
    let stands = scene.throttled() && !scene.stale();
    if !fresh(scene, seen) && !stands {
        return paced(scene, Step::Read { urgent: true });
    }
    let Some(server) = choice.node.server else {
        return MoveStep::Rest;
    };
    let moving = scene.world.moving.as_ref();
    let failed = moving.and_then(|moving| failed(moving, server));
    if let Some((at, ProviderTrouble::Refused(_))) = failed
        && seen.at < at + pace::TICK
    {
        // A read may lag behind the action; a second one a tick later is reliable.
        let wait = (at + pace::TICK).saturating_sub(scene.world.uptime);
        let wait = wait.max(pace::wait(scene.world));
        return after(wait, Step::Read { urgent: true });
    }
    let step = Step::Assign {
        node: choice.node.name.clone(),
        server,
        cause: cause(scene, choice),
    };
    let wait = failed.map_or(Duration::ZERO, |(at, trouble)| {
        pace::wait_after(scene.world, at, &trouble)
    });
    after(wait.max(pace::wait(scene.world)), step)
}

/// When the last action failed, and how. An action that reported success but did not move the
/// floating IP to `server` failed too.
fn failed(moving: &MoveInProgress, server: i64) -> Option<(Duration, ProviderTrouble)> {
    let action = moving.action.as_ref()?;
    let trouble = match &action.state {
        ActionState::Error(code) => ProviderTrouble::ActionFailed(code.clone()),
        ActionState::Success if moving.server == server => {
            ProviderTrouble::Refused("no_effect".to_owned())
        }
        ActionState::Running | ActionState::Success => return None,
    };
    Some((action.polled, trouble))
}

/// Why the floating IP is moved to the elected node.
pub(super) fn cause(scene: &Assessment<'_>, choice: &ElectedNode<'_>) -> MoveCause {
    let begun = scene.world.status.moving.as_ref();
    if let Some(begun) = begun.filter(|begun| begun.to == choice.node.name) {
        return begun.cause;
    }
    match (choice.cause, scene.elsewhere) {
        (Some(cause), _) => cause,
        (None, Some(_)) => MoveCause::TakenBack,
        (None, None) => MoveCause::Unassigned,
    }
}

/// Whether a read is recent enough to act on: within one resync, or since this move began.
fn fresh(scene: &Assessment<'_>, seen: &ObservedFloatingIp) -> bool {
    let world = scene.world;
    let age = world.uptime.saturating_sub(seen.at);
    let looked = world.moving.as_ref().is_some_and(|moving| moving.looked);
    // Locks and refused tokens may last, and a person may move the address meanwhile.
    let trouble = world.cloud.trouble.as_ref();
    let lasting = matches!(
        trouble,
        Some(ProviderTrouble::Locked | ProviderTrouble::Unauthorized)
    );
    let looked = looked && !lasting && !scene.stale();
    age <= world.cloud.resync + world.cloud.resync / 8 || looked
}

/// Writes this leader's term to the floating IP, after everything else.
fn claim(scene: &Assessment<'_>) -> MoveStep {
    let world = scene.world;
    let (Election::Chosen(choice), Some(seen)) = (&scene.election, &world.cloud.seen) else {
        return MoveStep::Rest;
    };
    let written = world.term == 0 || seen.term == world.term;
    if scene.frozen() || written || seen.server != choice.node.server {
        return MoveStep::Rest;
    }
    claim_again(scene)
}

fn claim_again(scene: &Assessment<'_>) -> MoveStep {
    let due = pace::next_claim(scene.world);
    after(due.saturating_sub(scene.world.uptime), Step::Claim)
}

/// The routine read that is due.
fn look(scene: &Assessment<'_>) -> MoveStep {
    let due = pace::next_look(scene.world);
    let wait = due.saturating_sub(scene.world.uptime);
    after(wait, Step::Read { urgent: false })
}

/// `step`, once the pause after the last failure is over.
fn paced(scene: &Assessment<'_>, step: Step) -> MoveStep {
    after(pace::wait(scene.world), step)
}

fn after(wait: Duration, step: Step) -> MoveStep {
    if wait.is_zero() {
        return MoveStep::Do(step);
    }
    MoveStep::Wait(wait)
}

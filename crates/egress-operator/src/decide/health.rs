//! How nodes stand: who could take the floating IP, and how long a gateway in trouble keeps it.

use std::time::Duration;

use aplomb_api::egress::{Cause, Signal, StableEgressSpec, Suspect, Suspicion};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::tidings::later;
use crate::world::{Node, Ready, World};

/// How long a gateway may be unhealthy where nothing else is said.
const UNHEALTHY: Duration = Duration::from_secs(90);

/// How a node that carries the gateway labels stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may stay.
    Eligible,
    /// It must go at once.
    Out(Cause),
    /// It is in trouble, and may be so for a while.
    Grace(Trouble),
    /// It has been in trouble for too long.
    Spent(Trouble),
}

/// What is wrong with a gateway, and for how long it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// What.
    pub(super) what: Suspicion,
    /// Since when.
    pub(super) since: Timestamp,
    /// When its grace is over, where time decides that.
    pub(super) ends: Timestamp,
}

/// Whether the health signal of `node` is good; `None` where it has not said anything yet.
fn healthy(spec: &StableEgressSpec, node: &Node) -> Option<bool> {
    match spec.health.signal {
        Signal::Ready => Some(node.ready == Ready::True),
        Signal::Probe => node.probe.map(|probe| probe.failures == 0),
    }
}

/// Whether the floating IP may be moved to `node`.
pub(super) fn promotable(spec: &StableEgressSpec, node: &Node) -> bool {
    node.candidate
        && node.prepared
        && node.ready == Ready::True
        && !node.cordoned
        && !node.terminating
        && node.server.is_some()
        && node.taken.is_none()
        && healthy(spec, node) == Some(true)
}

/// Whether nothing can be hoped from `node`: no limit keeps the floating IP on it.
pub(super) fn dead(spec: &StableEgressSpec, node: &Node) -> bool {
    let silent = spec.health.signal == Signal::Probe && healthy(spec, node) == Some(false);
    node.terminating || node.ready == Ready::Unknown || (silent && node.ready != Ready::True)
}

/// Why `node` must not be the gateway, grace or not.
pub(super) fn out(world: &World, node: &Node) -> Option<Cause> {
    let was_candidate = world.status.active_was_candidate
        && world.status.active_node.as_deref() == Some(node.name.as_str());
    if node.terminating {
        return Some(Cause::NodeTerminating);
    }
    if node.cordoned {
        return Some(Cause::NodeCordoned);
    }
    // Without a server it can never hold the floating IP, whatever its labels say.
    let unusable = node.server.is_none() || node.taken.is_some();
    ((!node.candidate && was_candidate) || unusable).then_some(Cause::CandidateLost)
}

/// What is wrong with `node` now, graces apart.
pub(super) fn suspicion(spec: &StableEgressSpec, node: &Node) -> Option<Suspicion> {
    let disputed = node.probe.is_some_and(|probe| probe.disputed);
    match healthy(spec, node) {
        // Another replica reaches it: it is this replica that is cut off.
        Some(false) if spec.health.signal == Signal::Probe && disputed => None,
        Some(false) => Some(Suspicion::Unhealthy),
        _ if !node.prepared => Some(Suspicion::Unprepared),
        _ => None,
    }
}

/// How `node`, which carries the gateway labels, stands.
pub(super) fn standing(world: &World, now: Timestamp, node: &Node) -> Standing {
    if let Some(cause) = out(world, node) {
        return Standing::Out(cause);
    }
    let Some(what) = suspicion(&world.spec, node) else {
        return Standing::Eligible;
    };
    let since = since(world, now, node, what);
    let ends = later(since, grace(&world.spec, what));
    let trouble = Trouble { what, since, ends };
    if now >= ends && failed_enough(&world.spec, node, what) {
        return Standing::Spent(trouble);
    }
    Standing::Grace(trouble)
}

fn grace(spec: &StableEgressSpec, what: Suspicion) -> Duration {
    let counted = spec.health.signal == Signal::Probe && spec.health.probe.failures.is_some();
    match (what, spec.graces.unhealthy) {
        (Suspicion::Unprepared, _) => spec.graces.unprepared.0,
        (Suspicion::Unhealthy, Some(grace)) => grace.0,
        (Suspicion::Unhealthy, None) if counted => Duration::ZERO,
        (Suspicion::Unhealthy, None) => UNHEALTHY,
    }
}

fn failed_enough(spec: &StableEgressSpec, node: &Node, what: Suspicion) -> bool {
    if what == Suspicion::Unprepared || spec.health.signal == Signal::Ready {
        return true;
    }
    let failures = node.probe.map_or(0, |probe| probe.failures);
    failures >= spec.health.probe.failures.unwrap_or(1)
}

/// Since when `what` is wrong with `node`: as the status has it, unless that is another leader's word
/// that shall not be taken, or the clock was set back since.
fn since(world: &World, now: Timestamp, node: &Node, what: Suspicion) -> Timestamp {
    let known = world.status.suspects.iter();
    let known = known
        .filter(|suspect| suspect.node == node.name && suspect.what == what)
        .map(|suspect| suspect.since.0)
        .next();
    let led = now.checked_sub(world.led).unwrap_or(Timestamp::MIN);
    known
        .filter(|since| world.spec.graces.survive_restart || *since >= led)
        .map_or(now, |since| since.min(now))
}

/// What the status says of the gateways in trouble.
pub(super) fn suspects(standings: &[(&Node, Standing)]) -> Vec<Suspect> {
    let suspects = standings.iter().filter_map(|(node, standing)| {
        let (Standing::Grace(trouble) | Standing::Spent(trouble)) = standing else {
            return None;
        };
        Some(Suspect {
            node: node.name.clone(),
            what: trouble.what,
            since: MicroTime(trouble.since),
        })
    });
    suspects.collect()
}

/// Why `node` cannot take the floating IP, in a few words after its name.
pub(super) fn unfit(spec: &StableEgressSpec, node: &Node) -> &'static str {
    if node.terminating {
        return "is being deleted";
    }
    if node.cordoned {
        return "is cordoned";
    }
    if node.server.is_none() {
        return "has a providerID that is not hcloud://<number>";
    }
    if node.taken.is_some() {
        return "carries the gateway label of another";
    }
    if node.ready != Ready::True {
        return "is not Ready";
    }
    match healthy(spec, node) {
        None => "has not been probed yet",
        Some(false) => "does not answer its probe",
        Some(true) if !node.prepared => "is not prepared",
        Some(true) => "cannot take the floating IP",
    }
}

//! Health of nodes: which can take the floating IP, and how long an unhealthy gateway keeps it.

use std::time::Duration;

use aplomb_api::egress::{HealthSignal, MoveCause, StableEgressSpec, SuspectStatus, Suspicion};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::messages::add_span;
use crate::egress::{CandidateNode, NodeReady, Observed};

const DEFAULT_UNHEALTHY_GRACE: Duration = Duration::from_secs(90);

/// State of a node that has the gateway labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GatewayHealth {
    Eligible,
    /// It must be replaced at once.
    Unusable(MoveCause),
    /// It has a problem, and its grace period is running.
    Grace(HealthIssue),
    GraceExpired(HealthIssue),
}

/// A problem of a gateway, and its grace period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HealthIssue {
    pub(super) suspicion: Suspicion,
    pub(super) since: Timestamp,
    /// When the grace period ends, where time decides that.
    pub(super) ends: Timestamp,
}

/// The health signal of `node`; `None` without a result so far.
fn is_healthy(spec: &StableEgressSpec, node: &CandidateNode) -> Option<bool> {
    match spec.health.signal {
        HealthSignal::Ready => Some(node.ready == NodeReady::True),
        HealthSignal::Probe => node.probe_result.map(|probe| probe.failures == 0),
    }
}

/// Whether the floating IP may be moved to `node`.
pub(super) fn is_promotable(spec: &StableEgressSpec, node: &CandidateNode) -> bool {
    node.candidate
        && node.prepared
        && node.ready == NodeReady::True
        && !node.cordoned
        && !node.terminating
        && node.server.is_some()
        && node.conflicting_label.is_none()
        && is_healthy(spec, node) == Some(true)
}

/// Whether `node` cannot recover: no limit keeps the floating IP on it.
pub(super) fn is_dead(spec: &StableEgressSpec, node: &CandidateNode) -> bool {
    let silent = spec.health.signal == HealthSignal::Probe && is_healthy(spec, node) == Some(false);
    node.terminating || node.ready == NodeReady::Unknown || (silent && node.ready != NodeReady::True)
}

/// Why `node` must not be the gateway, regardless of grace periods.
pub(super) fn removal_cause(world: &Observed, node: &CandidateNode) -> Option<MoveCause> {
    let was_candidate =
        world.status.active_was_candidate && world.status.active_node.as_deref() == Some(node.name.as_str());
    if node.terminating {
        return Some(MoveCause::NodeTerminating);
    }
    if node.cordoned {
        return Some(MoveCause::NodeCordoned);
    }
    // Without a server it can never hold the floating IP, whatever its labels are.
    let unusable = node.server.is_none() || node.conflicting_label.is_some();
    ((!node.candidate && was_candidate) || unusable).then_some(MoveCause::CandidateLost)
}

/// The current problem of `node`, regardless of grace periods.
pub(super) fn suspicion(spec: &StableEgressSpec, node: &CandidateNode) -> Option<Suspicion> {
    let disputed = node.probe_result.is_some_and(|probe| probe.disputed);
    match is_healthy(spec, node) {
        // Another replica reaches the node: the failure is on this replica's side.
        Some(false) if spec.health.signal == HealthSignal::Probe && disputed => None,
        Some(false) => Some(Suspicion::Unhealthy),
        _ if !node.prepared => Some(Suspicion::Unprepared),
        _ => None,
    }
}

/// State of `node`, which has the gateway labels.
pub(super) fn gateway_health(world: &Observed, now: Timestamp, node: &CandidateNode) -> GatewayHealth {
    if let Some(cause) = removal_cause(world, node) {
        return GatewayHealth::Unusable(cause);
    }
    let Some(what) = suspicion(&world.spec, node) else {
        return GatewayHealth::Eligible;
    };
    let since = suspect_since(world, now, node, what);
    let ends = add_span(since, grace_for(&world.spec, what));
    let trouble = HealthIssue {
        suspicion: what,
        since,
        ends,
    };
    if now >= ends && has_failed_enough(&world.spec, node, what) {
        return GatewayHealth::GraceExpired(trouble);
    }
    GatewayHealth::Grace(trouble)
}

fn grace_for(spec: &StableEgressSpec, what: Suspicion) -> Duration {
    let counted = spec.health.signal == HealthSignal::Probe && spec.health.probe.failures.is_some();
    match (what, spec.graces.unhealthy) {
        (Suspicion::Unprepared, _) => spec.graces.unprepared.0,
        (Suspicion::Unhealthy, Some(grace)) => grace.0,
        (Suspicion::Unhealthy, None) if counted => Duration::ZERO,
        (Suspicion::Unhealthy, None) => DEFAULT_UNHEALTHY_GRACE,
    }
}

fn has_failed_enough(spec: &StableEgressSpec, node: &CandidateNode, what: Suspicion) -> bool {
    if what == Suspicion::Unprepared || spec.health.signal == HealthSignal::Ready {
        return true;
    }
    let failures = node.probe_result.map_or(0, |probe| probe.failures);
    failures >= spec.health.probe.failures.unwrap_or(1)
}

/// When `what` began on `node`: the time in the status, unless it was set by a previous leader and must not be reused,
/// or the clock was set back since.
fn suspect_since(world: &Observed, now: Timestamp, node: &CandidateNode, what: Suspicion) -> Timestamp {
    let known = world.status.suspects.iter();
    let known = known
        .filter(|suspect| suspect.node == node.name && suspect.what == what)
        .map(|suspect| suspect.since.0)
        .next();
    let led = now.checked_sub(world.leading_for).unwrap_or(Timestamp::MIN);
    known
        .filter(|since| world.spec.graces.survive_restart || *since >= led)
        .map_or(now, |since| since.min(now))
}

/// The gateways with problems, as written to the status.
pub(super) fn suspects(standings: &[(&CandidateNode, GatewayHealth)]) -> Vec<SuspectStatus> {
    let suspects = standings.iter().filter_map(|(node, standing)| {
        let (GatewayHealth::Grace(trouble) | GatewayHealth::GraceExpired(trouble)) = standing else {
            return None;
        };
        Some(SuspectStatus {
            node: node.name.clone(),
            what: trouble.suspicion,
            since: MicroTime(trouble.since),
        })
    });
    suspects.collect()
}

/// Why `node` cannot take the floating IP, as a phrase to follow its name.
pub(super) fn unfit_reason(spec: &StableEgressSpec, node: &CandidateNode) -> &'static str {
    if node.terminating {
        return "is being deleted";
    }
    if node.cordoned {
        return "is cordoned";
    }
    if node.server.is_none() {
        return "has a providerID that is not hcloud://<number>";
    }
    if node.conflicting_label.is_some() {
        return "has a gateway label with a foreign value";
    }
    if node.ready != NodeReady::True {
        return "is not Ready";
    }
    match is_healthy(spec, node) {
        None => "has not been probed yet",
        Some(false) => "does not respond to probes",
        Some(true) if !node.prepared => "is not prepared",
        Some(true) => "cannot take the floating IP",
    }
}

//! Turns the observed state of a tunnel into the next step and the status to write. Pure: the same input
//! gives the same plan.

mod conditions;
mod hostnames;
mod notes;
mod ready;
mod revisions;
mod standing;
#[cfg(test)]
mod tests;
mod timeline;

use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb_api::tunnel::{HttpProxyStatus, conditions as kinds, reasons};

use self::conditions::TunnelAssessment;
use self::hostnames::HostnameClaims;
use crate::children::children;
use crate::evidence::{ProbeResult, subject};
use crate::world::{Observed, Plan, Standing, Step};

/// Maximum rounds of proofs in one pass, because the state may change during a round.
const PROOFS: u32 = 3;
/// Delay before the next pass when this one could not keep up with changes.
const SOON: Duration = Duration::from_millis(50);
/// How long to wait for an expected event before checking again.
const WAIT: Duration = Duration::from_secs(5);
/// The same if only a change of an object can make progress.
const REST: Duration = Duration::from_secs(60);

/// Returns the next step and the status to write meanwhile.
pub(crate) fn decide(world: &Observed) -> Plan {
    let Some(domain) = &world.domain else {
        return refused(
            world,
            reasons::CONNECTOR_CLASS_NOT_FOUND,
            &no_class(world),
            false,
        );
    };
    let held = hostnames::held(world, domain);
    let served = held.served();
    if let Err(wrong) = children(&world.proxy, &served) {
        return refused(world, reasons::INVALID, &wrong, true);
    }
    let facts = TunnelAssessment::new(world, &held);
    let conditions = facts.conditions();
    let standing = standing::standing(&conditions).filter(|it| is_news(world, it));
    let step = next(world, &held, &facts, &served);
    let step = step.or_else(|| standing.as_ref().map(|_| Step::Report));
    let ready = conditions
        .iter()
        .any(|it| it.kind == kinds::READY && it.status == ConditionStatus::True);
    let status = HttpProxyStatus {
        hostname: served.first().cloned(),
        canonical_hostname: Some(held.canonical.clone()),
        hostname_statuses: held.statuses.clone(),
        connector: connectors(world),
        addresses: addresses(world),
        revisions: facts.revisions.clone(),
        timeline: Some(timeline::timeline(world, &facts, ready)),
        observed_generation: None,
        conditions: Vec::new(),
    };
    Plan {
        notes: notes::notes(world, &conditions, &status),
        again: again(world, &facts),
        waiting: facts.waiting(),
        rejected: None,
        standing,
        step,
        status,
        conditions,
    }
}

/// The next step. Claims come first, so that a child never names a hostname that the tunnel does not own.
fn next(
    world: &Observed,
    held: &HostnameClaims,
    facts: &TunnelAssessment<'_>,
    served: &[String],
) -> Option<Step> {
    if let Some(step) = &held.step {
        return Some(step.clone());
    }
    let progress = &world.progress;
    if progress.written.is_none() {
        return Some(Step::Write);
    }
    // After the children, which no longer name a hostname that another tunnel may now claim.
    if let Some(surplus) = world.surplus.first() {
        return Some(Step::Unclaim(surplus.clone()));
    }
    if facts.provable() && progress.proofs < PROOFS {
        let subject = subject(world, served);
        let evidence = world.evidence.as_ref();
        let holds = |it: &&ProbeResult| it.holds(&subject, world.instant) && !unheard(world, it);
        if evidence.filter(holds).is_none() {
            return Some(Step::Prove);
        }
    }
    None
}

/// Whether to check the status of the children: to report that they are served, or that children with a
/// reported status are not.
fn is_news(world: &Observed, standing: &Standing) -> bool {
    let served = standing.programmed.status == ConditionStatus::True;
    !world.progress.reported && (served || world.reported)
}

/// Whether a timeout is still inconclusive. A tunnel that is not Ready is probed once more before it is
/// reported broken, because a first response may be a moment away.
fn unheard(world: &Observed, evidence: &ProbeResult) -> bool {
    evidence.is_silent() && evidence.failures < PROOFS && !notes::was_ready(world)
}

fn again(world: &Observed, facts: &TunnelAssessment<'_>) -> Duration {
    let proof = world.evidence.as_ref().filter(|_| facts.provable());
    let until = |at: tokio::time::Instant| at.saturating_duration_since(world.instant);
    match proof {
        Some(evidence) if facts.stale(evidence) => SOON,
        Some(evidence) => until(evidence.at + evidence.due),
        None if facts.waiting() => WAIT,
        None => REST,
    }
}

/// The plan for a spec that cannot be served.
fn refused(world: &Observed, reason: &'static str, message: &str, finally: bool) -> Plan {
    let conditions = conditions::refused(reason, message);
    let standing = standing::standing(&conditions).filter(|it| is_news(world, it));
    let status = world.proxy.status.clone().unwrap_or_default();
    Plan {
        step: standing.as_ref().map(|_| Step::Report),
        standing,
        notes: notes::notes(world, &conditions, &status),
        status,
        conditions,
        again: REST,
        waiting: false,
        rejected: finally.then(|| (reason, message.to_owned())),
    }
}

fn no_class(world: &Observed) -> String {
    let class = &world.proxy.spec.connector_class_name;
    format!(
        "ConnectorClass {class:?} does not exist, so the domain is unknown: create it or set another \
         spec.connectorClassName"
    )
}

fn connectors(world: &Observed) -> Option<String> {
    let names: Vec<&str> = world.connectors.keys().map(String::as_str).collect();
    Some(names.join(",")).filter(|names| !names.is_empty())
}

fn addresses(world: &Observed) -> Vec<String> {
    let mut all: Vec<String> = world
        .replicas
        .iter()
        .map(|replica| replica.listen.clone())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

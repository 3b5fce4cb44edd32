//! Turns the observed state of a tunnel into the next step and the status to write. Pure: the same input
//! gives the same plan.

mod conditions;
mod hostnames;
mod ready;
mod revisions;
#[cfg(test)]
mod tests;

use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb_api::tunnel::{HttpProxyStatus, conditions as kinds, reasons};

use self::conditions::TunnelAssessment;
pub(crate) use self::conditions::is_about_relay;
use self::hostnames::HostnameClaims;
use crate::httpproxy::child_status::child_conditions;
use crate::httpproxy::children::build_children;
use crate::httpproxy::{ChildConditions, Observed, Plan, TunnelStep};
use crate::probe::result::{ProbeResult, probe_subject};

/// Maximum rounds of proofs in one pass, because the state may change during a round.
const MAX_PROBES: u32 = 3;
/// Delay before the next pass when this one could not keep up with changes.
const CATCH_UP_DELAY: Duration = Duration::from_millis(50);
/// How long to wait for an expected event before checking again.
const PENDING_RECHECK: Duration = Duration::from_secs(5);
/// The same if only a change of an object can make progress.
const IDLE_RECHECK: Duration = Duration::from_secs(60);

/// Returns the next step and the status to write meanwhile.
pub(crate) fn decide(world: &Observed) -> Plan {
    let Some(domain) = &world.domain else {
        return rejected_plan(
            world,
            reasons::CONNECTOR_CLASS_NOT_FOUND,
            &missing_class_message(world),
            false,
        );
    };
    let held = hostnames::hostname_claims(world, domain);
    let served = held.accepted_hostnames();
    if let Err(wrong) = build_children(&world.proxy, &served) {
        return rejected_plan(world, reasons::INVALID, &wrong, true);
    }
    let facts = TunnelAssessment::new(world, &held);
    let conditions = facts.conditions();
    let standing = child_conditions(&conditions).filter(|it| child_status_changed(world, it));
    let step = next_step(world, &held, &facts, &served);
    let step = step.or_else(|| standing.as_ref().map(|_| TunnelStep::Report));
    let ready = conditions
        .iter()
        .any(|it| it.type_ == kinds::READY && it.status == ConditionStatus::True);
    let status = HttpProxyStatus {
        hostname: served.first().cloned(),
        canonical_hostname: Some(held.canonical.clone()),
        hostname_statuses: held.statuses.clone(),
        connector: connector_names(world),
        addresses: gateway_addresses(world),
        revisions: facts.revisions.clone(),
        timeline: Some(revisions::timeline(world, &facts, ready)),
        observed_generation: None,
        conditions: Vec::new(),
    };
    Plan {
        notes: ready::notes(world, &conditions, &status),
        requeue_after: requeue_after(world, &facts),
        waiting: facts.is_waiting(),
        rejected: None,
        child_conditions: standing,
        step,
        status,
        conditions,
    }
}

/// The next step. Claims come first, so that a child never names a hostname that the tunnel does not own.
fn next_step(
    world: &Observed,
    held: &HostnameClaims,
    facts: &TunnelAssessment<'_>,
    served: &[String],
) -> Option<TunnelStep> {
    if let Some(step) = &held.step {
        return Some(step.clone());
    }
    let progress = &world.progress;
    if progress.written.is_none() {
        return Some(TunnelStep::Write);
    }
    // After the children, which no longer name a hostname that another tunnel may now claim.
    if let Some(surplus) = world.surplus_claims.first() {
        return Some(TunnelStep::Unclaim(surplus.clone()));
    }
    if facts.is_provable() && progress.probes < MAX_PROBES {
        let subject = probe_subject(world, served);
        let evidence = world.probe_result.as_ref();
        let holds = |it: &&ProbeResult| it.is_current(&subject, world.instant) && !is_inconclusive(world, it);
        if evidence.filter(holds).is_none() {
            return Some(TunnelStep::Prove);
        }
    }
    None
}

/// Whether to check the status of the children: to report that they are served, or that children with a
/// reported status are not.
fn child_status_changed(world: &Observed, standing: &ChildConditions) -> bool {
    let served = standing.programmed.status == ConditionStatus::True;
    !world.progress.child_status_reported && (served || world.child_status_reported)
}

/// Whether a timeout is still inconclusive. A tunnel that is not Ready is probed once more before it is
/// reported broken, because a first response may be a moment away.
fn is_inconclusive(world: &Observed, evidence: &ProbeResult) -> bool {
    evidence.is_unanswered() && evidence.failures < MAX_PROBES && !ready::was_ready(world)
}

fn requeue_after(world: &Observed, facts: &TunnelAssessment<'_>) -> Duration {
    let proof = world.probe_result.as_ref().filter(|_| facts.is_provable());
    let until = |at: tokio::time::Instant| at.saturating_duration_since(world.instant);
    match proof {
        Some(evidence) if facts.is_stale(evidence) => CATCH_UP_DELAY,
        Some(evidence) => until(evidence.at + evidence.next_probe_after),
        None if facts.is_waiting() => PENDING_RECHECK,
        None => IDLE_RECHECK,
    }
}

fn rejected_plan(world: &Observed, reason: &'static str, message: &str, finally: bool) -> Plan {
    let conditions = conditions::rejected_conditions(reason, message);
    let standing = child_conditions(&conditions).filter(|it| child_status_changed(world, it));
    let status = world.proxy.status.clone().unwrap_or_default();
    Plan {
        step: standing.as_ref().map(|_| TunnelStep::Report),
        child_conditions: standing,
        notes: ready::notes(world, &conditions, &status),
        status,
        conditions,
        requeue_after: IDLE_RECHECK,
        waiting: false,
        rejected: finally.then(|| (reason, message.to_owned())),
    }
}

fn missing_class_message(world: &Observed) -> String {
    let class = &world.proxy.spec.connector_class_name;
    format!(
        "ConnectorClass {class:?} does not exist, so the domain is unknown: create it or set another \
         spec.connectorClassName"
    )
}

fn connector_names(world: &Observed) -> Option<String> {
    let names: Vec<&str> = world.connectors.keys().map(String::as_str).collect();
    Some(names.join(",")).filter(|names| !names.is_empty())
}

fn gateway_addresses(world: &Observed) -> Vec<String> {
    let mut all: Vec<String> = world.replicas.iter().map(|replica| replica.listen.clone()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

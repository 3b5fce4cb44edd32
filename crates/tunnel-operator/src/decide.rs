//! From what is known of a tunnel to the next step and to what its status says. Pure: the same world
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

/// How many proofs one pass may try: what is proven may change meanwhile.
const PROOFS: u32 = 3;
/// How soon a pass follows one that could not keep up with the changes.
const SOON: Duration = Duration::from_millis(50);
/// How long nothing may be heard of what is waited for before it is looked at again.
const WAIT: Duration = Duration::from_secs(5);
/// The same where only a change of some object can help.
const REST: Duration = Duration::from_secs(60);

/// What to do next, and what to say meanwhile.
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
        .any(|it| it.type_ == kinds::READY && it.status == ConditionStatus::True);
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

/// The next effect. Claims come first, so that no child ever names a hostname that is not ours.
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
    // After the children: none of them names a hostname that another may claim already.
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

/// Whether the status of the children is to be looked at: that they are served, or, where something was said
/// of them before, that they are not.
fn is_news(world: &Observed, standing: &Standing) -> bool {
    let served = standing.programmed.status == ConditionStatus::True;
    !world.progress.reported && (served || world.reported)
}

/// Whether silence says too little yet: a tunnel that nobody calls ready is asked once more before it is called
/// broken, which would be news to correct a moment later.
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

/// A spec that nothing is made of.
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
        "there is no ConnectorClass {class:?}, and so no domain for the hostname: create it, or name \
         another in spec.connectorClassName"
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

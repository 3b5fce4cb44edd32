//! Whether a tunnel is ready, and the Events of its transitions. Only a proof that is still valid makes it ready.

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{HttpProxyStatus, conditions as kinds, reasons};

use super::conditions::{TunnelAssessment, is_about_relay};
use crate::httpproxy::Observed;
use crate::probe::result::ProbeResult;

/// The conditions that must be true before a proof counts. The first one that is not provides the reason of `Ready`.
const REQUIRED_CONDITIONS: [&str; 4] = [
    kinds::ACCEPTED,
    kinds::HOSTNAMES_VERIFIED,
    kinds::PROGRAMMED,
    kinds::CONNECTOR_METADATA_PROGRAMMED,
];

/// The last proof, if it is about the current state of the tunnel. A failure counts until a newer result
/// replaces it, so that a tunnel that just failed is not reported as pending.
fn current_probe_result<'a>(facts: &'a TunnelAssessment<'_>) -> Option<&'a ProbeResult> {
    let evidence = facts.world.probe_result.as_ref();
    evidence.filter(|it| facts.is_provable() && !(it.is_success() && facts.is_stale(it)))
}

pub(super) fn ready_condition(facts: &TunnelAssessment<'_>, said: &[Condition]) -> Condition {
    let proven = current_probe_result(facts).is_some_and(ProbeResult::is_success);
    let online = said.iter().find(|it| it.type_ == kinds::CONNECTOR_ONLINE);
    // If the agent is not running, a missing relay is not the cause. A lost session may be caused by one.
    let away = [reasons::RELEASED, reasons::EXPIRED, reasons::NEVER_SEEN];
    let away = online.is_some_and(|it| it.status == ConditionStatus::False && away.contains(&&*it.reason));
    let lacking = |kind: &&str| {
        let said = said.iter().find(|it| it.type_ == **kind)?;
        // A proof shows that the agent is reachable without its relay.
        let needless = (proven || away) && is_about_relay(said);
        (said.status != ConditionStatus::True && !needless).then_some(said)
    };
    if let Some(lacks) = REQUIRED_CONDITIONS.iter().find_map(lacking) {
        return Condition::new(kinds::READY, lacks.status, &lacks.reason, lacks.message.clone());
    }
    let world = facts.world;
    let old = |it: &&ProbeResult| world.instant >= it.at + world.proxy.spec.proof_interval.0;
    if current_probe_result(facts)
        .filter(|it| it.is_success())
        .filter(old)
        .is_some()
    {
        let message = "the last proof has expired; waiting for a new one";
        return Condition::new_unknown(kinds::READY, reasons::STALE, message);
    }
    let Some(evidence) = current_probe_result(facts) else {
        return match online {
            Some(it) if it.status == ConditionStatus::False => offline_condition(&it.message),
            _ => Condition::new_false(kinds::READY, reasons::PENDING, "waiting for the first proof"),
        };
    };
    let failure = evidence.tunnel.as_ref().err();
    let certificates = evidence.certificates.as_ref().and_then(|it| it.as_ref().err());
    match failure.or(certificates) {
        Some(failure) => Condition::new_false(kinds::READY, failure.reason, failure.message.clone()),
        None if evidence.origin == Some(false) => {
            let message = "the agent cannot connect to the origin: check that the origin runs";
            Condition::new_false(kinds::READY, reasons::ORIGIN_UNREACHABLE, message)
        }
        None => {
            let message = "every live gateway returned a signed proof";
            Condition::new_true(kinds::READY, reasons::PROVEN, message)
        }
    }
}

fn offline_condition(message: &str) -> Condition {
    Condition::new_false(kinds::READY, reasons::CONNECTOR_OFFLINE, message)
}

/// The condition of the certificates, only for a tunnel with TLS.
pub(super) fn certificates_condition(facts: &TunnelAssessment<'_>) -> Option<Condition> {
    facts.world.proxy.spec.tls.as_ref()?;
    let kind = kinds::CERTIFICATES_READY;
    let shown = current_probe_result(facts).and_then(|it| it.certificates.as_ref());
    Some(match shown {
        None => Condition::new_unknown(kind, reasons::PENDING, "waiting for the first TLS probe"),
        Some(Ok(())) => {
            let message = "every live gateway has a certificate for every hostname";
            Condition::new_true(kind, reasons::CERTIFICATES_SERVED, message)
        }
        Some(Err(failure)) => Condition::new_false(kind, failure.reason, failure.message.clone()),
    })
}

/// Whether the origin accepts connections according to the agent, or cannot be probed at all.
pub(super) fn origin_condition(facts: &TunnelAssessment<'_>) -> Option<Condition> {
    let (kind, evidence) = (kinds::ORIGIN_REACHABLE, current_probe_result(facts)?);
    let failure = evidence.tunnel.as_ref().err();
    let about = [reasons::ORIGIN_NOT_EXPOSED, reasons::ORIGIN_UNREACHABLE];
    if let Some(failure) = failure.filter(|it| about.contains(&it.reason)) {
        return Some(Condition::new_false(kind, failure.reason, failure.message.clone()));
    }
    let reachable = evidence.origin?;
    Some(match reachable {
        true => Condition::new_true(kind, reasons::ORIGIN_REACHABLE, "the origin accepts connections"),
        false => Condition::new_false(
            kind,
            reasons::ORIGIN_UNREACHABLE,
            "the agent cannot connect to the origin: check that the origin runs",
        ),
    })
}

const ACTION: &str = "Prove";

/// The Events for the transitions from the current status to `conditions`.
pub(super) fn notes(world: &Observed, conditions: &[Condition], status: &HttpProxyStatus) -> Vec<EventNote> {
    let find = |kind: &str| conditions.iter().find(|it| it.type_ == kind);
    let mut notes = Vec::new();
    if let Some(ready) = find(kinds::READY).filter(|it| has_changed(world, it)) {
        notes.extend(readiness_note(world, ready, status));
    }
    if let Some(taken) = find(kinds::HOSTNAMES_IN_USE).filter(|it| has_changed(world, it)) {
        notes.push(EventNote::warning(&taken.reason, "Claim", taken.message.clone()));
    }
    notes
}

fn readiness_note(world: &Observed, ready: &Condition, status: &HttpProxyStatus) -> Option<EventNote> {
    if ready.status == ConditionStatus::True {
        let hostname = status.hostname.as_deref().unwrap_or_default();
        let message = format!("{hostname} carries traffic: {}", ready.message);
        return Some(EventNote::normal(reasons::PROVEN, ACTION, message));
    }
    // A tunnel that is still being set up needs no Event, unless it was ready before.
    let under_way = ready.reason == reasons::PENDING && !was_ready(world);
    (!under_way).then(|| EventNote::warning(&ready.reason, ACTION, ready.message.clone()))
}

pub(super) fn was_ready(world: &Observed) -> bool {
    previous_condition(world, kinds::READY).is_some_and(|(status, _)| status == ConditionStatus::True.as_str())
}

fn previous_condition<'a>(world: &'a Observed, kind: &str) -> Option<(&'a str, &'a str)> {
    let status = world.proxy.status.as_ref()?;
    let condition = status.conditions.iter().find(|it| it.type_ == kind)?;
    Some((&condition.status, &condition.reason))
}

fn has_changed(world: &Observed, condition: &Condition) -> bool {
    previous_condition(world, &condition.type_) != Some((condition.status.as_str(), &condition.reason))
}

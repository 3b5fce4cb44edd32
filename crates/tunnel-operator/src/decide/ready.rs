//! Whether a tunnel is ready: only a proof that still holds says so.

use aplomb::Condition;
use aplomb::conditions::ConditionStatus;
use aplomb_api::tunnel::{conditions as kinds, reasons};

use super::conditions::{TunnelAssessment, is_about_relay};
use crate::evidence::ProbeResult;

/// The conditions that must hold before a proof counts, and whose reason is told first if one does not.
const REQUIRED_CONDITIONS: [&str; 4] = [
    kinds::ACCEPTED,
    kinds::HOSTNAMES_VERIFIED,
    kinds::PROGRAMMED,
    kinds::CONNECTOR_METADATA_PROGRAMMED,
];

/// The evidence, if it is about the tunnel as it is now. A failure counts until something better is
/// known: nothing is called pending that was just seen to fail.
fn current_probe_result<'a>(facts: &'a TunnelAssessment<'_>) -> Option<&'a ProbeResult> {
    let evidence = facts.world.probe_result.as_ref();
    evidence.filter(|it| facts.is_provable() && !(it.is_success() && facts.is_stale(it)))
}

pub(super) fn ready_condition(facts: &TunnelAssessment<'_>, said: &[Condition]) -> Condition {
    let proven = current_probe_result(facts).is_some_and(ProbeResult::is_success);
    let online = said.iter().find(|it| it.kind == kinds::CONNECTOR_ONLINE);
    // An agent that does not run is reached through no relay; a session may be lost for want of one.
    let away = [reasons::RELEASED, reasons::EXPIRED, reasons::NEVER_SEEN];
    let away =
        online.is_some_and(|it| it.status == ConditionStatus::False && away.contains(&&*it.reason));
    let lacking = |kind: &&str| {
        let said = said.iter().find(|it| it.kind == **kind)?;
        // A proof shows that the agent is reached without its relay.
        let needless = (proven || away) && is_about_relay(said);
        (said.status != ConditionStatus::True && !needless).then_some(said)
    };
    if let Some(lacks) = REQUIRED_CONDITIONS.iter().find_map(lacking) {
        return Condition::new(
            kinds::READY,
            lacks.status,
            &lacks.reason,
            lacks.message.clone(),
        );
    }
    let world = facts.world;
    let old = |it: &&ProbeResult| world.instant >= it.at + world.proxy.spec.proof_interval.0;
    if current_probe_result(facts)
        .filter(|it| it.is_success())
        .filter(old)
        .is_some()
    {
        let message = "the last proof is too old to say";
        return Condition::unknown(kinds::READY, reasons::STALE, message);
    }
    let Some(evidence) = current_probe_result(facts) else {
        return match online {
            Some(it) if it.status == ConditionStatus::False => offline_condition(&it.message),
            _ => Condition::no(kinds::READY, reasons::PENDING, "not proven yet"),
        };
    };
    let failure = evidence.tunnel.as_ref().err();
    let certificates = evidence
        .certificates
        .as_ref()
        .and_then(|it| it.as_ref().err());
    match failure.or(certificates) {
        Some(failure) => Condition::no(kinds::READY, failure.reason, failure.message.clone()),
        None if evidence.origin == Some(false) => {
            let message = "the tunnel works, but its agent cannot reach the origin: is it running?";
            Condition::no(kinds::READY, reasons::ORIGIN_UNREACHABLE, message)
        }
        None => {
            let message = "a nonce came back, signed, through every live gateway";
            Condition::yes(kinds::READY, reasons::PROVEN, message)
        }
    }
}

fn offline_condition(message: &str) -> Condition {
    Condition::no(kinds::READY, reasons::CONNECTOR_OFFLINE, message)
}

/// Whether the certificates are served; only for a tunnel with TLS.
pub(super) fn certificates_condition(facts: &TunnelAssessment<'_>) -> Option<Condition> {
    facts.world.proxy.spec.tls.as_ref()?;
    let kind = kinds::CERTIFICATES_READY;
    let shown = current_probe_result(facts).and_then(|it| it.certificates.as_ref());
    Some(match shown {
        None => Condition::unknown(kind, reasons::PENDING, "no TLS listener was asked yet"),
        Some(Ok(())) => {
            let message = "every live gateway shows a certificate of every hostname";
            Condition::yes(kind, reasons::CERTIFICATES_SERVED, message)
        }
        Some(Err(failure)) => Condition::no(kind, failure.reason, failure.message.clone()),
    })
}

/// Whether the origin takes connections, as the agent says, or cannot even be asked.
pub(super) fn origin_condition(facts: &TunnelAssessment<'_>) -> Option<Condition> {
    let (kind, evidence) = (kinds::ORIGIN_REACHABLE, current_probe_result(facts)?);
    let failure = evidence.tunnel.as_ref().err();
    let about = [reasons::ORIGIN_NOT_EXPOSED, reasons::ORIGIN_UNREACHABLE];
    if let Some(failure) = failure.filter(|it| about.contains(&it.reason)) {
        return Some(Condition::no(kind, failure.reason, failure.message.clone()));
    }
    let reachable = evidence.origin?;
    Some(match reachable {
        true => Condition::yes(
            kind,
            reasons::ORIGIN_REACHABLE,
            "the origin takes connections",
        ),
        false => Condition::no(
            kind,
            reasons::ORIGIN_UNREACHABLE,
            "the agent cannot connect to the origin: is it running?",
        ),
    })
}

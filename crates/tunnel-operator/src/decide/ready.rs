//! Whether a tunnel is ready. Only a proof that is still valid makes it so.

use aplomb::Condition;
use aplomb::conditions::ConditionStatus;
use aplomb_api::tunnel::{conditions as kinds, reasons};

use super::conditions::{TunnelAssessment, is_about_relay};
use crate::evidence::ProbeResult;

/// The conditions that must be true before a proof counts. The first one that is not provides the reason of
/// `Ready`.
const NEEDED: [&str; 4] = [
    kinds::ACCEPTED,
    kinds::HOSTNAMES_VERIFIED,
    kinds::PROGRAMMED,
    kinds::CONNECTOR_METADATA_PROGRAMMED,
];

/// The last proof, if it is about the current state of the tunnel. A failure counts until a newer result
/// replaces it, so that a tunnel that just failed is not reported as pending.
fn evidence<'a>(facts: &'a TunnelAssessment<'_>) -> Option<&'a ProbeResult> {
    let evidence = facts.world.evidence.as_ref();
    evidence.filter(|it| facts.provable() && !(it.is_good() && facts.stale(it)))
}

pub(super) fn ready(facts: &TunnelAssessment<'_>, said: &[Condition]) -> Condition {
    let proven = evidence(facts).is_some_and(ProbeResult::is_good);
    let online = said.iter().find(|it| it.kind == kinds::CONNECTOR_ONLINE);
    // If the agent is not running, a missing relay is not the cause. A lost session may be caused by one.
    let away = [reasons::RELEASED, reasons::EXPIRED, reasons::NEVER_SEEN];
    let away =
        online.is_some_and(|it| it.status == ConditionStatus::False && away.contains(&&*it.reason));
    let lacking = |kind: &&str| {
        let said = said.iter().find(|it| it.kind == **kind)?;
        // A proof shows that the agent is reachable without its relay.
        let needless = (proven || away) && is_about_relay(said);
        (said.status != ConditionStatus::True && !needless).then_some(said)
    };
    if let Some(lacks) = NEEDED.iter().find_map(lacking) {
        return Condition::new(
            kinds::READY,
            lacks.status,
            &lacks.reason,
            lacks.message.clone(),
        );
    }
    let world = facts.world;
    let old = |it: &&ProbeResult| world.instant >= it.at + world.proxy.spec.proof_interval.0;
    if evidence(facts)
        .filter(|it| it.is_good())
        .filter(old)
        .is_some()
    {
        let message = "the last proof has expired; waiting for a new one";
        return Condition::unknown(kinds::READY, reasons::STALE, message);
    }
    let Some(evidence) = evidence(facts) else {
        return match online {
            Some(it) if it.status == ConditionStatus::False => offline(&it.message),
            _ => Condition::no(kinds::READY, reasons::PENDING, "waiting for the first proof"),
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
            let message = "the agent cannot connect to the origin: check that the origin runs";
            Condition::no(kinds::READY, reasons::ORIGIN_UNREACHABLE, message)
        }
        None => {
            let message = "every live gateway returned a signed proof";
            Condition::yes(kinds::READY, reasons::PROVEN, message)
        }
    }
}

fn offline(message: &str) -> Condition {
    Condition::no(kinds::READY, reasons::CONNECTOR_OFFLINE, message)
}

/// The condition of the certificates, only for a tunnel with TLS.
pub(super) fn certificates(facts: &TunnelAssessment<'_>) -> Option<Condition> {
    facts.world.proxy.spec.tls.as_ref()?;
    let kind = kinds::CERTIFICATES_READY;
    let shown = evidence(facts).and_then(|it| it.certificates.as_ref());
    Some(match shown {
        None => Condition::unknown(kind, reasons::PENDING, "waiting for the first TLS probe"),
        Some(Ok(())) => {
            let message = "every live gateway has a certificate for every hostname";
            Condition::yes(kind, reasons::CERTIFICATES_SERVED, message)
        }
        Some(Err(failure)) => Condition::no(kind, failure.reason, failure.message.clone()),
    })
}

/// Whether the origin accepts connections according to the agent, or cannot be probed at all.
pub(super) fn origin(facts: &TunnelAssessment<'_>) -> Option<Condition> {
    let (kind, evidence) = (kinds::ORIGIN_REACHABLE, evidence(facts)?);
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
            "the origin accepts connections",
        ),
        false => Condition::no(
            kind,
            reasons::ORIGIN_UNREACHABLE,
            "the agent cannot connect to the origin: check that the origin runs",
        ),
    })
}

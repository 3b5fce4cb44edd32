//! Which hostnames a tunnel may serve: the platform hostname, and the custom hostnames that it has claimed.

use aplomb_api::tunnel::{HostnameStatus, canonical_hostname, canonical_label, reasons, split_canonical};

use crate::httpproxy::{ClaimState, Observed, TunnelStep, UnownedGateway};

/// All hostnames of a tunnel, and the next step for its claims.
#[derive(Clone, Debug)]
pub(super) struct HostnameClaims {
    pub(super) canonical: String,
    /// Custom hostnames in spec order, then the platform hostname.
    pub(super) statuses: Vec<HostnameStatus>,
    pub(super) step: Option<TunnelStep>,
}

impl HostnameClaims {
    /// The hostnames that may be served.
    pub(super) fn accepted_hostnames(&self) -> Vec<String> {
        let accepted = self.statuses.iter().filter(|it| it.accepted);
        accepted.map(|it| it.hostname.clone()).collect()
    }

    /// The hostnames that may not be served, with reason and message.
    pub(super) fn rejected_hostnames(&self) -> impl Iterator<Item = &HostnameStatus> {
        self.statuses.iter().filter(|it| !it.accepted)
    }
}

/// Evaluates the hostnames of a tunnel whose platform domain is `domain`.
pub(super) fn hostname_claims(world: &Observed, domain: &str) -> HostnameClaims {
    let uid = world.proxy.metadata.uid.as_deref().unwrap_or_default();
    let canonical = canonical_hostname(uid, domain);
    let mut statuses = Vec::new();
    let mut step = None;
    for hostname in &world.proxy.spec.hostnames {
        if *hostname == canonical {
            continue;
        }
        let claim = world.claims.get(hostname).unwrap_or(&ClaimState::Free);
        let (accepted, reason, todo) =
            reserved_decision(world, hostname, claim).unwrap_or_else(|| claim_decision(world, hostname, claim));
        statuses.push(hostname_status(hostname, accepted, reason));
        step = step.or(todo);
    }
    statuses.push(hostname_status(&canonical, true, "GivenByPlatform".to_owned()));
    HostnameClaims {
        canonical,
        statuses,
        step,
    }
}

fn hostname_status(hostname: &str, accepted: bool, reason: String) -> HostnameStatus {
    HostnameStatus {
        hostname: hostname.to_owned(),
        accepted,
        reason,
    }
}

/// Whether a hostname may be served, its reason, and the next step for its claim.
type HostnameDecision = (bool, String, Option<TunnelStep>);

/// A platform hostname, under the domain of any class or with the label of an existing tunnel, is served only
/// for the UID it belongs to. A claim made before it was recognized is released.
fn reserved_decision(world: &Observed, hostname: &str, claim: &ClaimState) -> Option<HostnameDecision> {
    let (label, domain) = split_canonical(hostname)?;
    let uid = world.proxy.metadata.uid.as_deref().unwrap_or_default();
    let free = !world.domains.contains(domain) && !world.platform_hostnames.contains(hostname);
    if free || label == canonical_label(uid) {
        return None;
    }
    let why = format!(
        "{}: the platform assigns hostnames like this under {domain}; choose another",
        reasons::HOSTNAME_RESERVED
    );
    let ours = matches!(claim, ClaimState::Own(..));
    Some((false, why, ours.then(|| TunnelStep::Unclaim(hostname.to_owned()))))
}

fn in_use_message(world: &Observed, plain: &UnownedGateway) -> String {
    let ours = world.proxy.metadata.namespace.as_ref() == Some(&plain.namespace);
    let by = match ours {
        true => format!("Gateway {}/{}", plain.namespace, plain.name),
        false => "a Gateway of another namespace".to_owned(),
    };
    format!("{}: served for {by}", reasons::HOSTNAME_IN_USE)
}

fn claim_decision(world: &Observed, hostname: &str, claim: &ClaimState) -> HostnameDecision {
    let plain = world.unowned_gateways.get(hostname);
    match claim {
        ClaimState::Own(..) if let Some(plain) = plain.filter(|it| it.older) => {
            let step = Some(TunnelStep::Unclaim(hostname.to_owned()));
            (false, in_use_message(world, plain), step)
        }
        ClaimState::Own(..) => (true, "Claimed".to_owned(), None),
        // First come, first served: a hostname that a Gateway already has is not claimed.
        ClaimState::Free if let Some(plain) = plain => (false, in_use_message(world, plain), None),
        ClaimState::Free => {
            let step = Some(TunnelStep::Claim(hostname.to_owned()));
            (false, reasons::PENDING.to_owned(), step)
        }
        ClaimState::Orphaned => {
            let step = Some(TunnelStep::Unclaim(hostname.to_owned()));
            (false, reasons::PENDING.to_owned(), step)
        }
        ClaimState::Taken { namespace, name } => {
            // The names of other tenants' objects are not disclosed.
            let ours = world.proxy.metadata.namespace.as_deref() == Some(namespace);
            let by = match ours {
                true => format!("HTTPProxy {namespace}/{name}"),
                false => "an HTTPProxy of another namespace".to_owned(),
            };
            let why = format!("{}: claimed by {by}", reasons::HOSTNAME_IN_USE);
            (false, why, None)
        }
    }
}

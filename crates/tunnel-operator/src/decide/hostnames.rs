//! Which hostnames a tunnel may serve: the platform's, and those of its own that it holds a claim on.

use aplomb_api::tunnel::{
    HostnameStatus, canonical_hostname, canonical_label, reasons, split_canonical,
};

use crate::world::{ClaimState, Observed, UnownedGateway, TunnelStep};

/// Every hostname, and what is to be done about claims.
#[derive(Clone, Debug)]
pub(super) struct HostnameClaims {
    /// The platform's.
    pub(super) canonical: String,
    /// One's own first, in the order of the spec, then the platform's.
    pub(super) statuses: Vec<HostnameStatus>,
    /// The next effect on a claim.
    pub(super) step: Option<TunnelStep>,
}

impl HostnameClaims {
    /// Those that may be served.
    pub(super) fn accepted_hostnames(&self) -> Vec<String> {
        let accepted = self.statuses.iter().filter(|it| it.accepted);
        accepted.map(|it| it.hostname.clone()).collect()
    }

    /// Those that may not, with the reason and a sentence.
    pub(super) fn rejected_hostnames(&self) -> impl Iterator<Item = &HostnameStatus> {
        self.statuses.iter().filter(|it| !it.accepted)
    }
}

/// What is known of the hostnames of a tunnel under `domain`.
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

/// Whether a hostname may be served, why, and what is to be done about its claim.
type HostnameDecision = (bool, String, Option<TunnelStep>);

/// A name that the platform gives, under the domain of any class or to a tunnel that exists, is served for
/// its UID alone. A claim that was made before that was known is given back.
fn reserved_decision(world: &Observed, hostname: &str, claim: &ClaimState) -> Option<HostnameDecision> {
    let (label, domain) = split_canonical(hostname)?;
    let uid = world.proxy.metadata.uid.as_deref().unwrap_or_default();
    let free = !world.domains.contains(domain) && !world.platform_hostnames.contains(hostname);
    if free || label == canonical_label(uid) {
        return None;
    }
    let why = format!(
        "{}: hostnames of this shape under {domain} are given by the platform; choose another",
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
        // First come, first served: what somebody has already is not claimed.
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
            // What other tenants have is not ours to tell.
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

//! Which hostnames a tunnel may serve: the platform hostname, and the custom hostnames that it has claimed.

use aplomb_api::tunnel::{
    HostnameStatus, canonical_hostname, canonical_label, reasons, split_canonical,
};

use crate::world::{ClaimState, Observed, Plain, Step};

/// All hostnames of a tunnel, and the next step for its claims.
#[derive(Clone, Debug)]
pub(super) struct HostnameClaims {
    /// The platform hostname.
    pub(super) canonical: String,
    /// Custom hostnames in spec order, then the platform hostname.
    pub(super) statuses: Vec<HostnameStatus>,
    /// The next step for a claim.
    pub(super) step: Option<Step>,
}

impl HostnameClaims {
    /// The hostnames that may be served.
    pub(super) fn served(&self) -> Vec<String> {
        let accepted = self.statuses.iter().filter(|it| it.accepted);
        accepted.map(|it| it.hostname.clone()).collect()
    }

    /// The hostnames that may not be served, with reason and message.
    pub(super) fn refused(&self) -> impl Iterator<Item = &HostnameStatus> {
        self.statuses.iter().filter(|it| !it.accepted)
    }
}

/// Evaluates the hostnames of a tunnel whose platform domain is `domain`.
pub(super) fn held(world: &Observed, domain: &str) -> HostnameClaims {
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
            reserved(world, hostname, claim).unwrap_or_else(|| judged(world, hostname, claim));
        statuses.push(status(hostname, accepted, reason));
        step = step.or(todo);
    }
    statuses.push(status(&canonical, true, "GivenByPlatform".to_owned()));
    HostnameClaims {
        canonical,
        statuses,
        step,
    }
}

fn status(hostname: &str, accepted: bool, reason: String) -> HostnameStatus {
    HostnameStatus {
        hostname: hostname.to_owned(),
        accepted,
        reason,
    }
}

/// Whether a hostname may be served, its reason, and the next step for its claim.
type Judgment = (bool, String, Option<Step>);

/// A platform hostname, under the domain of any class or with the label of an existing tunnel, is served only
/// for the UID it belongs to. A claim made before it was recognized is released.
fn reserved(world: &Observed, hostname: &str, claim: &ClaimState) -> Option<Judgment> {
    let (label, domain) = split_canonical(hostname)?;
    let uid = world.proxy.metadata.uid.as_deref().unwrap_or_default();
    let free = !world.domains.contains(domain) && !world.given.contains(hostname);
    if free || label == canonical_label(uid) {
        return None;
    }
    let why = format!(
        "{}: the platform assigns hostnames like this under {domain}; choose another",
        reasons::HOSTNAME_RESERVED
    );
    let ours = matches!(claim, ClaimState::Ours(..));
    Some((false, why, ours.then(|| Step::Unclaim(hostname.to_owned()))))
}

fn has(world: &Observed, plain: &Plain) -> String {
    let ours = world.proxy.metadata.namespace.as_ref() == Some(&plain.namespace);
    let by = match ours {
        true => format!("Gateway {}/{}", plain.namespace, plain.name),
        false => "a Gateway of another namespace".to_owned(),
    };
    format!("{}: served for {by}", reasons::HOSTNAME_IN_USE)
}

fn judged(world: &Observed, hostname: &str, claim: &ClaimState) -> Judgment {
    let plain = world.plain.get(hostname);
    match claim {
        ClaimState::Ours(..) if let Some(plain) = plain.filter(|it| it.first) => {
            let step = Some(Step::Unclaim(hostname.to_owned()));
            (false, has(world, plain), step)
        }
        ClaimState::Ours(..) => (true, "Claimed".to_owned(), None),
        // First come, first served: a hostname that a Gateway already has is not claimed.
        ClaimState::Free if let Some(plain) = plain => (false, has(world, plain), None),
        ClaimState::Free => {
            let step = Some(Step::Claim(hostname.to_owned()));
            (false, reasons::PENDING.to_owned(), step)
        }
        ClaimState::Void => {
            let step = Some(Step::Unclaim(hostname.to_owned()));
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

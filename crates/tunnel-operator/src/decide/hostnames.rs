//! Which hostnames a tunnel may serve: the platform's, and those of its own that it holds a claim on.

use aplomb_api::tunnel::{
    HostnameStatus, canonical_hostname, canonical_label, reasons, split_canonical,
};

use crate::world::{ClaimState, Observed, Plain, Step};

/// Every hostname, and what is to be done about claims.
#[derive(Clone, Debug)]
pub(super) struct HostnameClaims {
    /// The platform's.
    pub(super) canonical: String,
    /// One's own first, in the order of the spec, then the platform's.
    pub(super) statuses: Vec<HostnameStatus>,
    /// The next effect on a claim.
    pub(super) step: Option<Step>,
}

impl HostnameClaims {
    /// Those that may be served.
    pub(super) fn served(&self) -> Vec<String> {
        let accepted = self.statuses.iter().filter(|it| it.accepted);
        accepted.map(|it| it.hostname.clone()).collect()
    }

    /// Those that may not, with the reason and a sentence.
    pub(super) fn refused(&self) -> impl Iterator<Item = &HostnameStatus> {
        self.statuses.iter().filter(|it| !it.accepted)
    }
}

/// What is known of the hostnames of a tunnel under `domain`.
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

/// Whether a hostname may be served, why, and what is to be done about its claim.
type Judgment = (bool, String, Option<Step>);

/// A name that the platform gives, under the domain of any class or to a tunnel that exists, is served for
/// its UID alone. A claim that was made before that was known is given back.
fn reserved(world: &Observed, hostname: &str, claim: &ClaimState) -> Option<Judgment> {
    let (label, domain) = split_canonical(hostname)?;
    let uid = world.proxy.metadata.uid.as_deref().unwrap_or_default();
    let free = !world.domains.contains(domain) && !world.given.contains(hostname);
    if free || label == canonical_label(uid) {
        return None;
    }
    let why = format!(
        "{}: hostnames of this shape under {domain} are given by the platform; choose another",
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
        // First come, first served: what somebody has already is not claimed.
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

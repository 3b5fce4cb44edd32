//! Reasons and messages for problems: reasons for programs, messages for people that include what
//! to do.

use aplomb_api::egress::{Suspicion, reasons};

use super::assessment::Assessment;
use super::health::{HealthIssue as Wrong, unfit_reason};
use super::status::can_hold;
use crate::world::{CandidateNode, ProviderTrouble};

/// The reason for a problem with the provider.
pub(super) fn trouble_reason(trouble: &ProviderTrouble) -> &'static str {
    match trouble {
        ProviderTrouble::NoToken(_) => reasons::NO_TOKEN,
        ProviderTrouble::Unauthorized => reasons::UNAUTHORIZED,
        ProviderTrouble::NotFound => reasons::NO_FLOATING_IP,
        ProviderTrouble::Throttled => reasons::THROTTLED,
        ProviderTrouble::Unreachable(_) => reasons::PROVIDER_UNREACHABLE,
        ProviderTrouble::Locked | ProviderTrouble::Refused(_) | ProviderTrouble::ActionFailed(_) => reasons::MOVING,
    }
}

/// The problem, and what to do about it.
pub(super) fn trouble_message(scene: &Assessment<'_>, trouble: &ProviderTrouble) -> String {
    let fip = &scene.observed.spec.floating_ip;
    let which = match (&fip.name, fip.id) {
        (Some(name), _) => format!("floating IP {name:?}"),
        (None, Some(id)) => format!("floating IP with id {id}"),
        (None, None) => "floating IP".to_owned(),
    };
    match trouble {
        ProviderTrouble::NoToken(why) => why.clone(),
        ProviderTrouble::Unauthorized => {
            "API token refused: put a valid read-write token into spec.tokenSecretRef or the \
                                  operator's token file"
                .to_owned()
        }
        ProviderTrouble::NotFound => {
            format!("the API token's project has no {which}: correct spec.floatingIP")
        }
        ProviderTrouble::Throttled => "rate limited by the provider; will retry".to_owned(),
        ProviderTrouble::Locked => "the server or the floating IP is locked by another action; will retry".to_owned(),
        ProviderTrouble::Unreachable(why) => format!("cannot reach the provider: {why}"),
        ProviderTrouble::Refused(code) => format!("the provider refused the move: {code}"),
        ProviderTrouble::ActionFailed(code) => {
            format!("the provider failed to complete the move: {code}")
        }
    }
}

/// Why this leader's term could not be written, and what to do about it.
pub(super) fn term_message(trouble: &ProviderTrouble) -> String {
    match trouble {
        ProviderTrouble::Unauthorized => "give the API token read and write permission".to_owned(),
        ProviderTrouble::NoToken(why) => why.clone(),
        ProviderTrouble::NotFound => "the floating IP does not exist".to_owned(),
        ProviderTrouble::Throttled => "rate limited by the provider".to_owned(),
        ProviderTrouble::Locked => "locked by another action".to_owned(),
        ProviderTrouble::Unreachable(why) => why.clone(),
        ProviderTrouble::Refused(code) | ProviderTrouble::ActionFailed(code) => {
            format!("refused with {code}")
        }
    }
}

/// The reason for a problem with a gateway.
pub(super) const fn health_reason(trouble: &Wrong) -> &'static str {
    match trouble.suspicion {
        Suspicion::Unhealthy => reasons::GATEWAY_UNHEALTHY,
        Suspicion::Unprepared => reasons::GATEWAY_UNPREPARED,
    }
}

/// A problem with a gateway, and what happens next.
pub(super) fn health_message(node: &CandidateNode, trouble: &Wrong, then: &str) -> String {
    let what = match trouble.suspicion {
        Suspicion::Unhealthy => "unhealthy",
        Suspicion::Unprepared => "unprepared",
    };
    let (name, since) = (&node.name, trouble.since);
    format!("gateway {name} is {what} since {since}; {then}")
}

/// Why each candidate cannot take over.
pub(super) fn candidates_message(scene: &Assessment<'_>) -> String {
    let candidates = scene.observed.nodes.iter().filter(|node| node.candidate);
    let others = candidates.filter(|node| !can_hold(scene, node));
    let told: Vec<String> = others
        .take(8)
        .map(|node| format!("{} {}", node.name, unfit_reason(&scene.observed.spec, node)))
        .collect();
    told.join(", ")
}

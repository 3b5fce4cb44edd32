//! The words for what is wrong: reasons for programs, sentences for people that say what to do.

use aplomb_api::egress::{Suspicion, reasons};

use super::health::{HealthIssue as Wrong, unfit_reason};
use super::assessment::Assessment;
use super::status::can_hold;
use crate::world::{CandidateNode, ProviderTrouble};

/// The reason that a trouble of the provider is.
pub(super) fn trouble_reason(trouble: &ProviderTrouble) -> &'static str {
    match trouble {
        ProviderTrouble::NoToken(_) => reasons::NO_TOKEN,
        ProviderTrouble::Unauthorized => reasons::UNAUTHORIZED,
        ProviderTrouble::NotFound => reasons::NO_FLOATING_IP,
        ProviderTrouble::Throttled => reasons::THROTTLED,
        ProviderTrouble::Unreachable(_) => reasons::PROVIDER_UNREACHABLE,
        ProviderTrouble::Locked
        | ProviderTrouble::Refused(_)
        | ProviderTrouble::ActionFailed(_) => reasons::MOVING,
    }
}

/// What went wrong, and what to do about it.
pub(super) fn trouble_message(scene: &Assessment<'_>, trouble: &ProviderTrouble) -> String {
    let fip = &scene.observed.spec.floating_ip;
    let which = match (&fip.name, fip.id) {
        (Some(name), _) => format!("floating IP {name:?}"),
        (None, Some(id)) => format!("floating IP with the id {id}"),
        (None, None) => "floating IP".to_owned(),
    };
    match trouble {
        ProviderTrouble::NoToken(why) => why.clone(),
        ProviderTrouble::Unauthorized => {
            "the provider refuses the API token: put a valid one, which may \
                                  read and write, into the Secret of spec.tokenSecretRef or the \
                                  operator's token file"
                .to_owned()
        }
        ProviderTrouble::NotFound => {
            format!("the project of the API token has no {which}: correct spec.floatingIP")
        }
        ProviderTrouble::Throttled => "the provider's rate limit is used up".to_owned(),
        ProviderTrouble::Locked => {
            "the provider has locked the server or the floating IP for another \
                            action"
                .to_owned()
        }
        ProviderTrouble::Unreachable(why) => format!("the provider cannot be reached: {why}"),
        ProviderTrouble::Refused(code) => format!("the provider refuses the move: {code}"),
        ProviderTrouble::ActionFailed(code) => {
            format!("the provider could not finish the move: {code}")
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

/// The reason for what is wrong with a gateway.
pub(super) const fn health_reason(trouble: &Wrong) -> &'static str {
    match trouble.suspicion {
        Suspicion::Unhealthy => reasons::GATEWAY_UNHEALTHY,
        Suspicion::Unprepared => reasons::GATEWAY_UNPREPARED,
    }
}

/// What is wrong with a gateway, and what follows.
pub(super) fn health_message(node: &CandidateNode, trouble: &Wrong, then: &str) -> String {
    let what = match trouble.suspicion {
        Suspicion::Unhealthy => "unhealthy",
        Suspicion::Unprepared => "unprepared",
    };
    let (name, since) = (&node.name, trouble.since);
    format!("gateway {name} is {what} since {since}; {then}")
}

/// Why each candidate cannot take over, in a few words.
pub(super) fn candidates_message(scene: &Assessment<'_>) -> String {
    let candidates = scene.observed.nodes.iter().filter(|node| node.candidate);
    let others = candidates.filter(|node| !can_hold(scene, node));
    let told: Vec<String> = others
        .take(8)
        .map(|node| format!("{} {}", node.name, unfit_reason(&scene.observed.spec, node)))
        .collect();
    told.join(", ")
}

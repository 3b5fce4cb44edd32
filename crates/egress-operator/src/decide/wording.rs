//! The words for what is wrong: reasons for programs, sentences for people that say what to do.

use aplomb_api::egress::{Suspicion, reasons};

use super::health::{Trouble as Wrong, unfit};
use super::scene::Scene;
use super::status::serves;
use crate::world::{Node, Trouble};

/// The reason that a trouble of the provider is.
pub(super) fn reason(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::NoToken(_) => reasons::NO_TOKEN,
        Trouble::Unauthorized => reasons::UNAUTHORIZED,
        Trouble::NotFound => reasons::NO_FLOATING_IP,
        Trouble::Throttled => reasons::THROTTLED,
        Trouble::Unreachable(_) => reasons::PROVIDER_UNREACHABLE,
        Trouble::Locked | Trouble::Refused(_) | Trouble::ActionFailed(_) => reasons::MOVING,
    }
}

/// What went wrong, and what to do about it.
pub(super) fn said(scene: &Scene<'_>, trouble: &Trouble) -> String {
    let fip = &scene.world.spec.floating_ip;
    let which = match (&fip.name, fip.id) {
        (Some(name), _) => format!("floating IP {name:?}"),
        (None, Some(id)) => format!("floating IP with the id {id}"),
        (None, None) => "floating IP".to_owned(),
    };
    match trouble {
        Trouble::NoToken(why) => why.clone(),
        Trouble::Unauthorized => "the provider refuses the API token: put a valid one, which may \
                                  read and write, into the Secret of spec.tokenSecretRef or the \
                                  operator's token file"
            .to_owned(),
        Trouble::NotFound => {
            format!("the project of the API token has no {which}: correct spec.floatingIP")
        }
        Trouble::Throttled => "the provider's rate limit is used up".to_owned(),
        Trouble::Locked => "the provider has locked the server or the floating IP for another \
                            action"
            .to_owned(),
        Trouble::Unreachable(why) => format!("the provider cannot be reached: {why}"),
        Trouble::Refused(code) => format!("the provider refuses the move: {code}"),
        Trouble::ActionFailed(code) => format!("the provider could not finish the move: {code}"),
    }
}

/// Why this leader's term could not be written, and what to do about it.
pub(super) fn unwritten(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Unauthorized => "give the API token read and write permission".to_owned(),
        Trouble::NoToken(why) => why.clone(),
        Trouble::NotFound => "the floating IP does not exist".to_owned(),
        Trouble::Throttled => "rate limited by the provider".to_owned(),
        Trouble::Locked => "locked by another action".to_owned(),
        Trouble::Unreachable(why) => why.clone(),
        Trouble::Refused(code) | Trouble::ActionFailed(code) => format!("refused with {code}"),
    }
}

/// The reason for what is wrong with a gateway.
pub(super) const fn about(trouble: &Wrong) -> &'static str {
    match trouble.what {
        Suspicion::Unhealthy => reasons::GATEWAY_UNHEALTHY,
        Suspicion::Unprepared => reasons::GATEWAY_UNPREPARED,
    }
}

/// What is wrong with a gateway, and what follows.
pub(super) fn troubled(node: &Node, trouble: &Wrong, then: &str) -> String {
    let what = match trouble.what {
        Suspicion::Unhealthy => "unhealthy",
        Suspicion::Unprepared => "unprepared",
    };
    let (name, since) = (&node.name, trouble.since);
    format!("gateway {name} is {what} since {since}; {then}")
}

/// Why each candidate cannot take over, in a few words.
pub(super) fn why_not(scene: &Scene<'_>) -> String {
    let candidates = scene.world.nodes.iter().filter(|node| node.candidate);
    let others = candidates.filter(|node| !serves(scene, node));
    let told: Vec<String> = others
        .take(8)
        .map(|node| format!("{} {}", node.name, unfit(&scene.world.spec, node)))
        .collect();
    told.join(", ")
}

//! What the status of the children says of a tunnel: it falls as well as rises. What is only under way
//! changes nothing, so that an agent that starts again costs no writes here.

use aplomb::Condition;
use aplomb::conditions::Status;
use aplomb_api::tunnel::{conditions as kinds, reasons};

use crate::world::{Said, Standing};

/// The conditions without which children are not served, and whose reason is said first.
const NEEDED: [&str; 4] = [
    kinds::ACCEPTED,
    kinds::PROGRAMMED,
    kinds::CONNECTOR_METADATA_PROGRAMMED,
    kinds::CONNECTOR_ONLINE,
];

/// What there is to say of the children, if it is known.
pub(super) fn standing(conditions: &[Condition]) -> Option<Standing> {
    let find = |kind: &str| conditions.iter().find(|it| it.kind == kind);
    let yes = |reason: &'static str, message: &str| Said {
        status: Status::True,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let served = "every live gateway serves it";
    let mut standing = Standing {
        accepted: yes("Accepted", served),
        programmed: yes("Programmed", served),
        resolved: yes("ResolvedRefs", served),
    };
    let mut lacking = NEEDED.iter().filter_map(|kind| find(kind));
    let lacking = lacking.find(|it| it.status != Status::True);
    let ready = find(kinds::READY).is_some_and(|it| it.status == Status::True);
    let Some(lacking) = lacking.filter(|_| !ready) else {
        return Some(standing);
    };
    if lacking.reason == reasons::PENDING {
        return None;
    }
    let said = |reason: &str| Said {
        status: lacking.status,
        reason: reason.to_owned(),
        message: lacking.message.clone(),
    };
    standing.programmed = said(&lacking.reason);
    let known = "the operator has accepted it";
    (standing.accepted.message, standing.resolved.message) = (known.to_owned(), known.to_owned());
    match lacking.reason.as_str() {
        reasons::CONNECTOR_NOT_FOUND => standing.resolved = said("BackendNotFound"),
        reasons::QUARANTINED => standing.accepted = said("UnsupportedValue"),
        _ if lacking.kind == kinds::ACCEPTED => standing.accepted = said(&lacking.reason),
        _ => {}
    }
    Some(standing)
}

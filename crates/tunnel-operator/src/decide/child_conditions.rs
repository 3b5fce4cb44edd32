//! The status of a tunnel's children. A transition that is only under way changes nothing, so that an agent
//! restart causes no writes here.

use aplomb::Condition;
use aplomb::conditions::ConditionStatus;
use aplomb_api::tunnel::{conditions as kinds, reasons};

use super::conditions::is_about_relay;
use crate::world::{ChildCondition, ChildConditions};

/// The conditions without which children are not served. The first one that is not true provides the reason.
const REQUIRED_CONDITIONS: [&str; 4] = [
    kinds::ACCEPTED,
    kinds::PROGRAMMED,
    kinds::CONNECTOR_METADATA_PROGRAMMED,
    kinds::CONNECTOR_ONLINE,
];

/// The status to write on the children, if it is known.
pub(super) fn child_conditions(conditions: &[Condition]) -> Option<ChildConditions> {
    let find = |kind: &str| conditions.iter().find(|it| it.type_ == kind);
    let yes = |reason: &'static str, message: &str| ChildCondition {
        status: ConditionStatus::True,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let served = "served by every live gateway";
    let mut standing = ChildConditions {
        accepted: yes("Accepted", served),
        programmed: yes("Programmed", served),
        resolved: yes("ResolvedRefs", served),
    };
    let needed = REQUIRED_CONDITIONS.iter().filter_map(|kind| find(kind));
    let lacking: Vec<&Condition> = needed.filter(|it| it.status != ConditionStatus::True).collect();
    let ready = find(kinds::READY).is_some_and(|it| it.status == ConditionStatus::True);
    if ready || lacking.is_empty() {
        return Some(standing);
    }
    let pending = lacking.iter().any(|it| it.reason == reasons::PENDING);
    // A missing part takes precedence over a pending one; a relay may not be needed.
    let known = |it: &&&Condition| it.reason != reasons::PENDING && !(pending && is_about_relay(it));
    let first = *lacking.iter().find(known)?;
    let said = |it: &Condition, reason: &str| ChildCondition {
        status: it.status,
        reason: reason.to_owned(),
        message: it.message.clone(),
    };
    standing.programmed = said(first, &first.reason);
    standing.accepted.message = "accepted by the aplomb operator".to_owned();
    standing.resolved.message = "all references resolve as far as known".to_owned();
    match first.reason.as_str() {
        reasons::QUARANTINED => standing.accepted = said(first, "UnsupportedValue"),
        _ if first.type_ == kinds::ACCEPTED => standing.accepted = said(first, &first.reason),
        _ => {}
    }
    let mut lacking = lacking.iter();
    if let Some(missing) = lacking.find(|it| it.reason == reasons::CONNECTOR_NOT_FOUND) {
        standing.resolved = said(missing, "BackendNotFound");
    }
    Some(standing)
}

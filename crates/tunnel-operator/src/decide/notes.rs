//! Events: one for each transition of a tunnel that may need attention.

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{HttpProxyStatus, conditions as kinds, reasons};

use crate::world::Observed;

const ACTION: &str = "Prove";

/// The Events for the transitions from the current status to `conditions`.
pub(super) fn notes(world: &Observed, conditions: &[Condition], status: &HttpProxyStatus) -> Vec<EventNote> {
    let find = |kind: &str| conditions.iter().find(|it| it.type_ == kind);
    let mut notes = Vec::new();
    if let Some(ready) = find(kinds::READY).filter(|it| has_changed(world, it)) {
        notes.extend(readiness_note(world, ready, status));
    }
    if let Some(taken) = find(kinds::HOSTNAMES_IN_USE).filter(|it| has_changed(world, it)) {
        notes.push(EventNote::warning(&taken.reason, "Claim", taken.message.clone()));
    }
    notes
}

fn readiness_note(world: &Observed, ready: &Condition, status: &HttpProxyStatus) -> Option<EventNote> {
    if ready.status == ConditionStatus::True {
        let hostname = status.hostname.as_deref().unwrap_or_default();
        let message = format!("{hostname} carries traffic: {}", ready.message);
        return Some(EventNote::normal(reasons::PROVEN, ACTION, message));
    }
    // A tunnel that is still being set up needs no Event, unless it was ready before.
    let under_way = ready.reason == reasons::PENDING && !was_ready(world);
    (!under_way).then(|| EventNote::warning(&ready.reason, ACTION, ready.message.clone()))
}

/// Whether the current status has `Ready` true.
pub(super) fn was_ready(world: &Observed) -> bool {
    previous_condition(world, kinds::READY).is_some_and(|(status, _)| status == ConditionStatus::True.as_str())
}

fn previous_condition<'a>(world: &'a Observed, kind: &str) -> Option<(&'a str, &'a str)> {
    let status = world.proxy.status.as_ref()?;
    let condition = status.conditions.iter().find(|it| it.type_ == kind)?;
    Some((&condition.status, &condition.reason))
}

fn has_changed(world: &Observed, condition: &Condition) -> bool {
    previous_condition(world, &condition.type_) != Some((condition.status.as_str(), &condition.reason))
}

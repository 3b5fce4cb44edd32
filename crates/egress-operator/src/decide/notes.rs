//! Events: conditions that changed since the object was last written, and moves that ended.

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::egress::{MoveStatus, StableEgressStatus, conditions as kinds, reasons};

use super::assessment::Assessment;
use super::conditions::is_new_condition;
use crate::world::CandidateNode;

/// The Events for `scene`.
pub(super) fn build_notes(
    scene: &Assessment<'_>,
    status: &StableEgressStatus,
    conditions: &[Condition],
) -> Vec<EventNote> {
    let told = conditions.iter().filter(|c| is_new_condition(scene, c));
    let mut notes: Vec<EventNote> = told.filter_map(condition_note).collect();
    notes.extend(move_note(scene, status));
    notes.extend(overdue_note(scene, status));
    let redundant = conditions.iter().find(|c| c.type_ == kinds::REDUNDANT);
    let news = redundant.is_some_and(|c| is_new_condition(scene, c));
    notes.extend(unusable_notes(scene, news));
    notes
}

/// The Event for a condition that changed.
fn condition_note(condition: &Condition) -> Option<EventNote> {
    let words = (condition.type_.as_str(), condition.status);
    let passing = [reasons::MOVING, reasons::UNLABELLED, reasons::UNASSIGNED];
    let passing = passing.contains(&condition.reason.as_str());
    match words {
        (kinds::AVAILABLE, ConditionStatus::False) if !passing => Some(EventNote::warning(
            &condition.reason,
            "Watch",
            condition.message.clone(),
        )),
        (kinds::REDUNDANT, ConditionStatus::False) => Some(EventNote::warning(
            &condition.reason,
            "Watch",
            condition.message.clone(),
        )),
        (kinds::FENCED, ConditionStatus::False) => Some(EventNote::warning(
            &condition.reason,
            "Claim",
            condition.message.clone(),
        )),
        (kinds::HELD, ConditionStatus::True) => {
            Some(EventNote::normal(reasons::HELD, "Hold", condition.message.clone()))
        }
        _ => None,
    }
}

fn move_note(scene: &Assessment<'_>, status: &StableEgressStatus) -> Option<EventNote> {
    let last = status.last_move.as_ref()?;
    if scene.observed.status.last_move.as_ref() == Some(last) {
        return None;
    }
    let ip = status.ip.as_deref().unwrap_or("the floating IP");
    Some(EventNote::normal(reasons::MOVED, "Move", move_message(ip, last)))
}

fn move_message(ip: &str, moved: &MoveStatus) -> String {
    let from = moved.from.as_deref().unwrap_or("nowhere");
    let (to, cause) = (&moved.to, moved.cause.as_str());
    let took = moved.stages.total.unwrap_or_default();
    format!("{ip} moved from {from} to {to} ({cause}) in {took}")
}

fn overdue_note(scene: &Assessment<'_>, status: &StableEgressStatus) -> Option<EventNote> {
    let is_late = |status: &StableEgressStatus, late: &MoveStatus| {
        let moves = [status.moving.as_ref(), status.last_move.as_ref()];
        let mut moves = moves.into_iter().flatten();
        moves.any(|m| m.overdue && m.decided == late.decided)
    };
    let moves = [status.moving.as_ref(), status.last_move.as_ref()];
    let mut moves = moves.into_iter().flatten();
    let late = moves.find(|m| m.overdue && !is_late(&scene.observed.status, m))?;
    let limit = scene.observed.spec.move_deadline;
    let message = format!("move to {} exceeds spec.moveDeadline ({limit})", late.to);
    Some(EventNote::warning(reasons::DEADLINE, "Move", message))
}

/// Candidates that can never be used as they are. Reported when first seen and again when
/// redundancy is lost.
fn unusable_notes(scene: &Assessment<'_>, news: bool) -> Vec<EventNote> {
    let told = |node: &CandidateNode| scene.observed.reported_unusable.contains(&node.name);
    let nodes = scene.observed.nodes.iter().filter(|node| node.is_unusable());
    let nodes = nodes.filter(|node| news || !told(node));
    let note = |node: &CandidateNode| {
        let name = &node.name;
        if let Some(value) = &node.conflicting_label {
            let message = format!("skipping {name}: its gateway label has the foreign value {value}");
            return EventNote::warning(reasons::TAKEN, "Elect", message);
        }
        let message = format!("skipping {name}: its spec.providerID is not hcloud://<number>");
        EventNote::warning(reasons::NO_SERVER, "Elect", message)
    };
    nodes.map(note).collect()
}

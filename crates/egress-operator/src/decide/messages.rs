//! Reasons and messages for problems, and Events: reasons for programs, messages for people that include what to do.
//! Also times at the precision of the status.

use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::DurationString;
use aplomb_api::egress::{MoveStatus, StableEgressStatus, Suspicion, conditions as kinds, reasons};
use jiff::Timestamp;

use super::assessment::Assessment;
use super::conditions::is_new_condition;
use super::health::{HealthIssue as Wrong, unfit_reason};
use super::status::can_hold;
use crate::egress::{CandidateNode, ProviderTrouble};

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

fn condition_note(condition: &Condition) -> Option<EventNote> {
    let passing = [reasons::MOVING, reasons::UNLABELLED, reasons::UNASSIGNED].contains(&condition.reason.as_str());
    let message = condition.message.clone();
    let action = match (condition.type_.as_str(), condition.status) {
        (kinds::AVAILABLE, ConditionStatus::False) if !passing => "Watch",
        (kinds::REDUNDANT, ConditionStatus::False) => "Watch",
        (kinds::FENCED, ConditionStatus::False) => "Claim",
        (kinds::HELD, ConditionStatus::True) => return Some(EventNote::normal(reasons::HELD, "Hold", message)),
        _ => return None,
    };
    Some(EventNote::warning(&condition.reason, action, message))
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

fn overdue_moves(status: &StableEgressStatus) -> impl Iterator<Item = &MoveStatus> {
    let moves = [status.moving.as_ref(), status.last_move.as_ref()];
    moves.into_iter().flatten().filter(|it| it.overdue)
}

fn overdue_note(scene: &Assessment<'_>, status: &StableEgressStatus) -> Option<EventNote> {
    let known = |late: &MoveStatus| overdue_moves(&scene.observed.status).any(|it| it.decided == late.decided);
    let late = overdue_moves(status).find(|late| !known(late))?;
    let limit = scene.observed.spec.move_deadline;
    let message = format!("move to {} exceeds spec.moveDeadline ({limit})", late.to);
    Some(EventNote::warning(reasons::DEADLINE, "Move", message))
}

/// Candidates that can never be used as they are. Reported when first seen and again when redundancy is lost.
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

/// `moment` as it is written: to the microsecond.
pub(super) fn truncate_micros(moment: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(moment.as_microsecond()).unwrap_or(moment)
}

pub(super) fn add_span(moment: Timestamp, span: Duration) -> Timestamp {
    moment.saturating_add(span).unwrap_or(Timestamp::MAX)
}

/// The duration from `earlier` to `moment`; zero if the clock was set back between them.
pub(super) fn elapsed_between(earlier: Timestamp, moment: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// `duration` as it is written: to the millisecond.
pub(super) fn to_millis_span(duration: Duration) -> DurationString {
    DurationString(Duration::from_millis(
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
    ))
}

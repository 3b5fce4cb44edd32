//! The conditions. The same input gives the same messages: no figure in a message changes with time alone.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, READY};
use aplomb_api::egress::{MoveCause, StableEgressStatus, conditions as kinds, reasons};

use super::assessment::Assessment;
use super::election::Election;
use super::health::{GatewayHealth, suspicion};
use super::messages::{
    candidates_message, health_message, health_reason, term_message, trouble_message, trouble_reason,
};
use super::status::{can_hold, is_confirmed};
use crate::egress::{CandidateNode, LabelState, ProviderTrouble};

pub(super) fn build_conditions(scene: &Assessment<'_>, status: &StableEgressStatus) -> Vec<Condition> {
    let available = available_condition(scene, status);
    let ready = Condition {
        type_: READY.to_owned(),
        ..available.clone()
    };
    let mut conditions = vec![
        ready,
        available,
        provider_reachable_condition(scene),
        redundant_condition(scene),
        held_condition(scene),
    ];
    conditions.extend(labels_consistent_condition(scene));
    conditions.extend(fenced_condition(scene));
    conditions
}

fn unavailable(reason: &str, message: impl Into<String>) -> Condition {
    Condition::new_false(kinds::AVAILABLE, reason, message)
}

/// Whether traffic can leave through the floating IP. Reports the first problem found.
fn available_condition(scene: &Assessment<'_>, status: &StableEgressStatus) -> Condition {
    pods_unwatched(scene)
        .or_else(|| provider_failure(scene))
        .or_else(|| address_failure(scene))
        .or_else(|| gateway_failure(scene))
        .unwrap_or_else(|| placement_condition(scene, status))
}

/// The pods that prepare nodes are not watched, so readiness is unknown.
fn pods_unwatched(scene: &Assessment<'_>) -> Option<Condition> {
    let message = scene.observed.unwatched.as_ref()?;
    Some(unavailable(reasons::PODS_NOT_WATCHED, message))
}

/// Problems with the provider, or missing responses.
fn provider_failure(scene: &Assessment<'_>) -> Option<Condition> {
    let cloud = &scene.observed.floating_ip;
    // Reported until this leader has tried to write its own term: only this condition shows that it stood down.
    if scene.has_newer_term() && !scene.term_write_failed() {
        let message = "a newer leader has acted on the floating IP; standing down, and resuming \
                       after a minute if still leader";
        let reason = reasons::NEWER_LEADER;
        return Some(Condition::new_unknown(kinds::AVAILABLE, reason, message));
    }
    let stale = |reason: &str, message: &str| {
        let condition = Condition::new_unknown(kinds::AVAILABLE, reason, message);
        scene.is_stale().then_some(condition)
    };
    match cloud.trouble.as_ref() {
        Some(
            trouble @ (ProviderTrouble::NoToken(_)
            | ProviderTrouble::Unauthorized
            | ProviderTrouble::NotFound
            | ProviderTrouble::Unreachable(_)),
        ) => Some(unavailable(trouble_reason(trouble), trouble_message(scene, trouble))),
        Some(ProviderTrouble::Throttled) => {
            let message = "the provider's rate limit is exhausted; the holder of the floating IP \
                           was not read for too long";
            stale(reasons::STALE, message)
        }
        _ if cloud.observed.is_none() => stale(reasons::STALE, "the floating IP was not read yet"),
        _ => None,
    }
}

fn address_failure(scene: &Assessment<'_>) -> Option<Condition> {
    let seen = scene.observed.floating_ip.observed.as_ref()?;
    if seen.blocked {
        let message = format!("the provider has blocked {}; contact its support", seen.ip);
        return Some(unavailable(reasons::BLOCKED, message));
    }
    let refusal = scene.refusal.as_ref()?;
    Some(unavailable(reasons::NOT_ALLOWED, refusal))
}

fn gateway_failure(scene: &Assessment<'_>) -> Option<Condition> {
    let (node, trouble, then) = match &scene.election {
        Election::Grace { node, trouble } => {
            let then = format!("it is replaced if this lasts until {}", trouble.ends);
            (node, trouble, then)
        }
        Election::Capped { node, trouble, until } => {
            let most = scene.observed.spec.max_moves_per_hour;
            let then = format!("maxMovesPerHour ({most}) reached, so it stays until {until}");
            (node, trouble, then)
        }
        Election::NoneEligible => return no_eligible_node(scene),
        Election::Chosen(_) => return None,
    };
    Some(unavailable(
        health_reason(trouble),
        health_message(node, trouble, &then),
    ))
}

/// No node can be elected. A gateway that is only cordoned still carries traffic.
fn no_eligible_node(scene: &Assessment<'_>) -> Option<Condition> {
    if cordoned_gateway(scene).is_some() {
        return None;
    }
    let message = match scene.observed.nodes.iter().filter(|n| n.candidate).count() {
        0 => "no node is a candidate: label at least two, or correct spec.candidates".to_owned(),
        count => format!(
            "none of {count} candidates can take the floating IP: {}",
            candidates_message(scene)
        ),
    };
    Some(unavailable(reasons::NO_CANDIDATE, message))
}

/// The gateway that works although it is cordoned, if no other node can take over.
pub(super) fn cordoned_gateway<'a>(scene: &Assessment<'a>) -> Option<&'a CandidateNode> {
    let cordoned = GatewayHealth::Unusable(MoveCause::NodeCordoned);
    let mut standings = scene.gateway_health.iter();
    let (node, _) = standings.find(|(_, standing)| *standing == cordoned)?;
    let well = suspicion(&scene.observed.spec, node).is_none();
    let works = well && node.candidate && node.labels == LabelState::All && is_confirmed(scene, node);
    (works && scene.election == Election::NoneEligible).then_some(*node)
}

/// Where the floating IP and the labels are, without other problems.
fn placement_condition(scene: &Assessment<'_>, status: &StableEgressStatus) -> Condition {
    let seen = scene.observed.floating_ip.observed.as_ref();
    let ip = seen.map_or_else(String::new, |seen| seen.ip.to_string());
    let node = match &scene.election {
        Election::Chosen(choice) => choice.node,
        _ => {
            let name = cordoned_gateway(scene).map_or("the gateway", |node| node.name.as_str());
            let message = format!("{ip} is on {name}, which is cordoned; no other node can take over");
            return Condition::new_true(kinds::AVAILABLE, reasons::SERVING, message);
        }
    };
    let name = &node.name;
    if is_confirmed(scene, node) {
        if node.labels == LabelState::All {
            let message = format!("{ip} is on {name}, which has the gateway labels");
            return Condition::new_true(kinds::AVAILABLE, reasons::SERVING, message);
        }
        let message = format!("{ip} is on {name}, which does not have the gateway labels yet");
        return unavailable(reasons::UNLABELLED, message);
    }
    if let Some(elsewhere) = scene.foreign.filter(|_| status.moving.is_none()) {
        let message = format!(
            "{ip} was moved to a server outside the candidates; leaving it there until {}",
            elsewhere.until
        );
        return unavailable(reasons::ELSEWHERE, message);
    }
    if status.moving.is_some() {
        let trouble = scene.observed.floating_ip.trouble.as_ref();
        let why = trouble.map_or_else(String::new, |t| format!("; {}", trouble_message(scene, t)));
        return unavailable(reasons::MOVING, format!("moving {ip} to {name}{why}"));
    }
    match seen.and_then(|seen| seen.server) {
        None => unavailable(reasons::UNASSIGNED, format!("{ip} is not assigned to a server")),
        Some(_) => unavailable(reasons::ELSEWHERE, format!("{ip} is not on {name}")),
    }
}

fn provider_reachable_condition(scene: &Assessment<'_>) -> Condition {
    let kind = kinds::PROVIDER_REACHABLE;
    match scene.observed.floating_ip.trouble.as_ref() {
        Some(
            trouble @ (ProviderTrouble::NoToken(_) | ProviderTrouble::Unauthorized | ProviderTrouble::Unreachable(_)),
        ) => Condition::new_false(kind, trouble_reason(trouble), trouble_message(scene, trouble)),
        // Otherwise every throttled call would flip the condition.
        Some(trouble @ ProviderTrouble::Throttled) if scene.is_stale() => {
            Condition::new_false(kind, trouble_reason(trouble), trouble_message(scene, trouble))
        }
        _ if scene.observed.floating_ip.observed.is_none() && scene.observed.floating_ip.trouble.is_none() => {
            Condition::new_unknown(kind, reasons::STALE, "the provider was not called yet")
        }
        _ => Condition::new_true(kind, reasons::ANSWERS, "the provider responds"),
    }
}

fn redundant_condition(scene: &Assessment<'_>) -> Condition {
    let kind = kinds::REDUNDANT;
    let nodes = scene.observed.nodes.iter();
    let fit: Vec<&str> = nodes
        .filter(|node| can_hold(scene, node))
        .map(|node| node.name.as_str())
        .collect();
    if fit.len() >= 2 {
        return Condition::new_true(kind, reasons::STANDBY, "another node could take over");
    }
    let reason = if fit.is_empty() {
        reasons::NO_CANDIDATE
    } else {
        reasons::NO_STANDBY
    };
    let why = candidates_message(scene);
    let message = match (fit.first(), why.as_str()) {
        (Some(name), "") => format!("{name} is the only candidate: label another node"),
        (Some(name), why) => format!("only {name} can hold the floating IP: {why}"),
        (None, "") => "no node is a candidate: label at least two".to_owned(),
        (None, why) => format!("no node can take the floating IP: {why}"),
    };
    Condition::new_false(kind, reason, message)
}

fn held_condition(scene: &Assessment<'_>) -> Condition {
    match &scene.held {
        Some(held) => Condition::new_true(kinds::HELD, reasons::HELD, held.message.clone()),
        None => Condition::new_false(kinds::HELD, reasons::NOT_HELD, "automation is not frozen"),
    }
}

/// Whether Node and CiliumNode have the same gateway labels; omitted without CiliumNodes.
fn labels_consistent_condition(scene: &Assessment<'_>) -> Option<Condition> {
    let kind = kinds::LABELS_CONSISTENT;
    let nodes = || scene.observed.nodes.iter();
    nodes().find(|node| node.cilium.is_some())?;
    let differs = |node: &&CandidateNode| {
        let labelled = |labels: LabelState| labels != LabelState::None;
        node.cilium.is_some_and(|c| labelled(c) != labelled(node.labels))
    };
    Some(match nodes().find(differs) {
        None => Condition::new_true(
            kind,
            reasons::CONSISTENT,
            "Node and CiliumNode have the same gateway labels",
        ),
        Some(node) => {
            let message = format!("the gateway labels of {} differ between Node and CiliumNode", node.name);
            Condition::new_false(kind, reasons::INCONSISTENT, message)
        }
    })
}

/// Reported only for a problem, and not after a single failure, since the next write may succeed.
fn fenced_condition(scene: &Assessment<'_>) -> Option<Condition> {
    let cloud = &scene.observed.floating_ip;
    let failed = cloud.term_failure.as_ref().filter(|failed| failed.failures > 1)?;
    // The write may have been applied although its response was lost.
    cloud.observed.as_ref().filter(|it| it.term != scene.observed.term)?;
    let why = term_message(&failed.trouble);
    let message = format!("term label not written: {why}; an old leader would not notice this one");
    let reason = reasons::TERM_NOT_WRITTEN;
    Some(Condition::new_false(kinds::FENCED, reason, message))
}

/// Whether the object does not have this condition with this status and reason yet.
pub(super) fn is_new_condition(scene: &Assessment<'_>, condition: &Condition) -> bool {
    let mut before = scene.observed.status.conditions.iter();
    !before.any(|before| {
        before.type_ == condition.type_
            && before.reason == condition.reason
            && ConditionStatus::parse(&before.status) == Some(condition.status)
    })
}

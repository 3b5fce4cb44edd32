//! What is said to programs and people. The same world gives the same words: no figure in a message
//! changes by itself.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, READY};
use aplomb_api::egress::{MoveCause, StableEgressStatus, conditions as kinds, reasons};

use super::election::Election;
use super::health::{GatewayHealth, suspicion};
use super::assessment::Assessment;
use super::status::{is_confirmed, can_hold};
use super::messages::{health_reason, trouble_reason, trouble_message, health_message, term_message, candidates_message};
use crate::world::{CandidateNode, LabelState, ProviderTrouble};

/// The conditions of `scene`.
pub(super) fn build_conditions(scene: &Assessment<'_>, status: &StableEgressStatus) -> Vec<Condition> {
    let available = available_condition(scene, status);
    let ready = Condition {
        kind: READY.to_owned(),
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
    Condition::no(kinds::AVAILABLE, reason, message)
}

/// Whether traffic can leave through the floating IP: the first thing that speaks against it.
fn available_condition(scene: &Assessment<'_>, status: &StableEgressStatus) -> Condition {
    pods_unwatched(scene)
        .or_else(|| provider_failure(scene))
        .or_else(|| address_failure(scene))
        .or_else(|| gateway_failure(scene))
        .unwrap_or_else(|| placement_condition(scene, status))
}

/// Nobody can tell who is prepared.
fn pods_unwatched(scene: &Assessment<'_>) -> Option<Condition> {
    let message = scene.observed.unwatched.as_ref()?;
    Some(unavailable(reasons::PODS_NOT_WATCHED, message))
}

/// What the provider says against it, or its silence.
fn provider_failure(scene: &Assessment<'_>) -> Option<Condition> {
    let cloud = &scene.observed.floating_ip;
    // Said until this leader has tried to write its own term: that it stood down is known from here alone.
    if scene.has_newer_term() && !scene.term_write_failed() {
        let message = "a newer leader has acted on the floating IP, so that this one stands down; \
                       one that still leads after a minute goes on";
        let reason = reasons::NEWER_LEADER;
        return Some(Condition::unknown(kinds::AVAILABLE, reason, message));
    }
    let stale = |reason: &str, message: &str| {
        let condition = Condition::unknown(kinds::AVAILABLE, reason, message);
        scene.is_stale().then_some(condition)
    };
    match cloud.trouble.as_ref() {
        Some(
            trouble @ (ProviderTrouble::NoToken(_)
            | ProviderTrouble::Unauthorized
            | ProviderTrouble::NotFound),
        ) => Some(unavailable(trouble_reason(trouble), trouble_message(scene, trouble))),
        Some(trouble @ ProviderTrouble::Unreachable(_)) => {
            Some(unavailable(trouble_reason(trouble), trouble_message(scene, trouble)))
        }
        Some(ProviderTrouble::Throttled) => {
            let message = "the provider's rate limit has left nothing for a look for too long to \
                           say who holds the floating IP";
            stale(reasons::STALE, message)
        }
        _ if cloud.observed.is_none() => {
            stale(reasons::STALE, "the floating IP has not been looked at yet")
        }
        _ => None,
    }
}

/// What the address says against it.
fn address_failure(scene: &Assessment<'_>) -> Option<Condition> {
    let seen = scene.observed.floating_ip.observed.as_ref()?;
    if seen.blocked {
        let message = format!("the provider has blocked {}: ask its support why", seen.ip);
        return Some(unavailable(reasons::BLOCKED, message));
    }
    let refusal = scene.refusal.as_ref()?;
    Some(unavailable(reasons::NOT_ALLOWED, refusal))
}

/// What the nodes say against it.
fn gateway_failure(scene: &Assessment<'_>) -> Option<Condition> {
    match &scene.election {
        Election::Grace { node, trouble } => {
            let then = format!("it is replaced if that lasts until {}", trouble.ends);
            Some(unavailable(health_reason(trouble), health_message(node, trouble, &then)))
        }
        Election::Capped {
            node,
            trouble,
            until,
        } => {
            let most = scene.observed.spec.max_moves_per_hour;
            let then = format!("there were {most} moves within an hour, so it stays until {until}");
            Some(unavailable(health_reason(trouble), health_message(node, trouble, &then)))
        }
        Election::NoneEligible => no_eligible_node(scene),
        Election::Chosen(_) => None,
    }
}

/// No node can be elected. A gateway that is merely cordoned still carries the traffic.
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

/// The gateway that works although it is cordoned, where nobody can take over.
pub(super) fn cordoned_gateway<'a>(scene: &Assessment<'a>) -> Option<&'a CandidateNode> {
    let cordoned = GatewayHealth::Unusable(MoveCause::NodeCordoned);
    let mut standings = scene.gateway_health.iter();
    let (node, _) = standings.find(|(_, standing)| *standing == cordoned)?;
    let well = suspicion(&scene.observed.spec, node).is_none();
    let works = well && node.candidate && node.labels == LabelState::All && is_confirmed(scene, node);
    (works && scene.election == Election::NoneEligible).then_some(*node)
}

/// Where the floating IP and the labels are, when nothing else speaks against it.
fn placement_condition(scene: &Assessment<'_>, status: &StableEgressStatus) -> Condition {
    let seen = scene.observed.floating_ip.observed.as_ref();
    let ip = seen.map_or_else(String::new, |seen| seen.ip.to_string());
    let node = match &scene.election {
        Election::Chosen(choice) => choice.node,
        _ => {
            let name = cordoned_gateway(scene).map_or("the gateway", |node| node.name.as_str());
            let message =
                format!("{ip} is on {name}, which is cordoned and has nobody to take over from it");
            return Condition::yes(kinds::AVAILABLE, reasons::SERVING, message);
        }
    };
    let name = &node.name;
    if is_confirmed(scene, node) {
        if node.labels == LabelState::All {
            let message = format!("{ip} is on {name}, which carries the gateway labels");
            return Condition::yes(kinds::AVAILABLE, reasons::SERVING, message);
        }
        let message = format!("{ip} is on {name}, which does not carry the gateway labels yet");
        return unavailable(reasons::UNLABELLED, message);
    }
    if let Some(elsewhere) = scene.foreign.filter(|_| status.moving.is_none()) {
        let message = format!(
            "somebody has moved {ip} to a server outside the candidates; that is respected until {}",
            elsewhere.until
        );
        return unavailable(reasons::ELSEWHERE, message);
    }
    if status.moving.is_some() {
        let trouble = scene.observed.floating_ip.trouble.as_ref();
        let why = trouble.map_or_else(String::new, |t| format!("; {}", trouble_message(scene, t)));
        return unavailable(
            reasons::MOVING,
            format!("{ip} is on its way to {name}{why}"),
        );
    }
    match seen.and_then(|seen| seen.server) {
        None => unavailable(reasons::UNASSIGNED, format!("{ip} is on no server")),
        Some(_) => unavailable(reasons::ELSEWHERE, format!("{ip} is not on {name}")),
    }
}

fn provider_reachable_condition(scene: &Assessment<'_>) -> Condition {
    let kind = kinds::PROVIDER_REACHABLE;
    match scene.observed.floating_ip.trouble.as_ref() {
        Some(
            trouble @ (ProviderTrouble::NoToken(_)
            | ProviderTrouble::Unauthorized
            | ProviderTrouble::Unreachable(_)),
        ) => Condition::no(kind, trouble_reason(trouble), trouble_message(scene, trouble)),
        // Every call that is refused for its rate would turn it otherwise.
        Some(trouble @ ProviderTrouble::Throttled) if scene.is_stale() => {
            Condition::no(kind, trouble_reason(trouble), trouble_message(scene, trouble))
        }
        _ if scene.observed.floating_ip.observed.is_none() && scene.observed.floating_ip.trouble.is_none() => {
            Condition::unknown(kind, reasons::STALE, "the provider has not been asked yet")
        }
        _ => Condition::yes(kind, reasons::ANSWERS, "the provider answers"),
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
        return Condition::yes(kind, reasons::STANDBY, "another node could take over");
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
    Condition::no(kind, reason, message)
}

fn held_condition(scene: &Assessment<'_>) -> Condition {
    match &scene.held {
        Some(held) => Condition::yes(kinds::HELD, reasons::HELD, held.message.clone()),
        None => Condition::no(kinds::HELD, reasons::NOT_HELD, "automation is not frozen"),
    }
}

/// Whether Node and CiliumNode agree; nothing to say where there is no CiliumNode.
fn labels_consistent_condition(scene: &Assessment<'_>) -> Option<Condition> {
    let kind = kinds::LABELS_CONSISTENT;
    let nodes = || scene.observed.nodes.iter();
    nodes().find(|node| node.cilium.is_some())?;
    let differs = |node: &&CandidateNode| {
        let labelled = |labels: LabelState| labels != LabelState::None;
        node.cilium
            .is_some_and(|c| labelled(c) != labelled(node.labels))
    };
    Some(match nodes().find(differs) {
        None => Condition::yes(kind, reasons::CONSISTENT, "Node and CiliumNode agree"),
        Some(node) => {
            let message = format!(
                "the gateway labels of {} differ between Node and CiliumNode",
                node.name
            );
            Condition::no(kind, reasons::INCONSISTENT, message)
        }
    })
}

/// Said only where it speaks against it, and not of one failure: the next write may succeed.
fn fenced_condition(scene: &Assessment<'_>) -> Option<Condition> {
    let cloud = &scene.observed.floating_ip;
    let failed = cloud.term_failure.as_ref().filter(|failed| failed.failures > 1)?;
    // It may have been written all the same, and only the answer was lost.
    cloud
        .observed
        .as_ref()
        .filter(|it| it.term != scene.observed.term)?;
    let why = term_message(&failed.trouble);
    let message = format!("term label not written: {why}; an old leader would not notice this one");
    let reason = reasons::TERM_NOT_WRITTEN;
    Some(Condition::no(kinds::FENCED, reason, message))
}

/// Whether a condition of this kind and reason, with this status, is news: the object does not say it.
pub(super) fn is_new_condition(scene: &Assessment<'_>, condition: &Condition) -> bool {
    let mut before = scene.observed.status.conditions.iter();
    !before.any(|before| {
        before.type_ == condition.kind
            && before.reason == condition.reason
            && ConditionStatus::parse(&before.status) == Some(condition.status)
    })
}

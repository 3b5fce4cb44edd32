//! The conditions. The same input gives the same messages: no figure in a message changes with time
//! alone.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, READY};
use aplomb_api::egress::{MoveCause, StableEgressStatus, conditions as kinds, reasons};

use super::election::Election;
use super::health::{GatewayHealth, suspicion};
use super::scene::Assessment;
use super::status::{confirmed, serves};
use super::wording::{about, reason, said, troubled, unwritten, why_not};
use crate::world::{CandidateNode, LabelState, ProviderTrouble};

/// The conditions of `scene`.
pub(super) fn of(scene: &Assessment<'_>, status: &StableEgressStatus) -> Vec<Condition> {
    let available = available(scene, status);
    let ready = Condition {
        kind: READY.to_owned(),
        ..available.clone()
    };
    let mut conditions = vec![
        ready,
        available,
        provider_reachable(scene),
        redundant(scene),
        held(scene),
    ];
    conditions.extend(labels_consistent(scene));
    conditions.extend(fenced(scene));
    conditions
}

fn no(reason: &str, message: impl Into<String>) -> Condition {
    Condition::no(kinds::AVAILABLE, reason, message)
}

/// Whether traffic can leave through the floating IP. Reports the first problem found.
fn available(scene: &Assessment<'_>, status: &StableEgressStatus) -> Condition {
    unwatched(scene)
        .or_else(|| provider(scene))
        .or_else(|| address(scene))
        .or_else(|| gateway(scene))
        .unwrap_or_else(|| placed(scene, status))
}

/// The pods that prepare nodes are not watched, so readiness is unknown.
fn unwatched(scene: &Assessment<'_>) -> Option<Condition> {
    let message = scene.world.unwatched.as_ref()?;
    Some(no(reasons::PODS_NOT_WATCHED, message))
}

/// Problems with the provider, or missing responses.
fn provider(scene: &Assessment<'_>) -> Option<Condition> {
    let cloud = &scene.world.cloud;
    // Reported until this leader has tried to write its own term: only this condition shows that it
    // stood down.
    if scene.newer_term() && !scene.claim_failed() {
        let message = "a newer leader has acted on the floating IP; standing down, and resuming \
                       after a minute if still leader";
        let reason = reasons::NEWER_LEADER;
        return Some(Condition::unknown(kinds::AVAILABLE, reason, message));
    }
    let stale = |reason: &str, message: &str| {
        let condition = Condition::unknown(kinds::AVAILABLE, reason, message);
        scene.stale().then_some(condition)
    };
    match cloud.trouble.as_ref() {
        Some(
            trouble @ (ProviderTrouble::NoToken(_)
            | ProviderTrouble::Unauthorized
            | ProviderTrouble::NotFound),
        ) => Some(no(reason(trouble), said(scene, trouble))),
        Some(trouble @ ProviderTrouble::Unreachable(_)) => {
            Some(no(reason(trouble), said(scene, trouble)))
        }
        Some(ProviderTrouble::Throttled) => {
            let message = "the provider's rate limit is exhausted; the holder of the floating IP \
                           was not read for too long";
            stale(reasons::STALE, message)
        }
        _ if cloud.seen.is_none() => {
            stale(reasons::STALE, "the floating IP was not read yet")
        }
        _ => None,
    }
}

/// Problems with the address.
fn address(scene: &Assessment<'_>) -> Option<Condition> {
    let seen = scene.world.cloud.seen.as_ref()?;
    if seen.blocked {
        let message = format!("the provider has blocked {}; contact its support", seen.ip);
        return Some(no(reasons::BLOCKED, message));
    }
    let refusal = scene.refusal.as_ref()?;
    Some(no(reasons::NOT_ALLOWED, refusal))
}

/// Problems with the nodes.
fn gateway(scene: &Assessment<'_>) -> Option<Condition> {
    match &scene.election {
        Election::Grace { node, trouble } => {
            let then = format!("it is replaced if this lasts until {}", trouble.ends);
            Some(no(about(trouble), troubled(node, trouble, &then)))
        }
        Election::Capped {
            node,
            trouble,
            until,
        } => {
            let most = scene.world.spec.max_moves_per_hour;
            let then = format!("maxMovesPerHour ({most}) reached, so it stays until {until}");
            Some(no(about(trouble), troubled(node, trouble, &then)))
        }
        Election::Nobody => nobody(scene),
        Election::Chosen(_) => None,
    }
}

/// No node can be elected. A gateway that is only cordoned still carries traffic.
fn nobody(scene: &Assessment<'_>) -> Option<Condition> {
    if cordoned_gateway(scene).is_some() {
        return None;
    }
    let message = match scene.world.nodes.iter().filter(|n| n.candidate).count() {
        0 => "no node is a candidate: label at least two, or correct spec.candidates".to_owned(),
        count => format!(
            "none of {count} candidates can take the floating IP: {}",
            why_not(scene)
        ),
    };
    Some(no(reasons::NO_CANDIDATE, message))
}

/// The gateway that works although it is cordoned, if no other node can take over.
pub(super) fn cordoned_gateway<'a>(scene: &Assessment<'a>) -> Option<&'a CandidateNode> {
    let cordoned = GatewayHealth::Out(MoveCause::NodeCordoned);
    let mut standings = scene.standings.iter();
    let (node, _) = standings.find(|(_, standing)| *standing == cordoned)?;
    let well = suspicion(&scene.world.spec, node).is_none();
    let works = well && node.candidate && node.labels == LabelState::All && confirmed(scene, node);
    (works && scene.election == Election::Nobody).then_some(*node)
}

/// Where the floating IP and the labels are, without other problems.
fn placed(scene: &Assessment<'_>, status: &StableEgressStatus) -> Condition {
    let seen = scene.world.cloud.seen.as_ref();
    let ip = seen.map_or_else(String::new, |seen| seen.ip.to_string());
    let node = match &scene.election {
        Election::Chosen(choice) => choice.node,
        _ => {
            let name = cordoned_gateway(scene).map_or("the gateway", |node| node.name.as_str());
            let message =
                format!("{ip} is on {name}, which is cordoned; no other node can take over");
            return Condition::yes(kinds::AVAILABLE, reasons::SERVING, message);
        }
    };
    let name = &node.name;
    if confirmed(scene, node) {
        if node.labels == LabelState::All {
            let message = format!("{ip} is on {name}, which has the gateway labels");
            return Condition::yes(kinds::AVAILABLE, reasons::SERVING, message);
        }
        let message = format!("{ip} is on {name}, which does not have the gateway labels yet");
        return no(reasons::UNLABELLED, message);
    }
    if let Some(elsewhere) = scene.elsewhere.filter(|_| status.moving.is_none()) {
        let message = format!(
            "{ip} was moved to a server outside the candidates; leaving it there until {}",
            elsewhere.until
        );
        return no(reasons::ELSEWHERE, message);
    }
    if status.moving.is_some() {
        let trouble = scene.world.cloud.trouble.as_ref();
        let why = trouble.map_or_else(String::new, |t| format!("; {}", said(scene, t)));
        return no(
            reasons::MOVING,
            format!("moving {ip} to {name}{why}"),
        );
    }
    match seen.and_then(|seen| seen.server) {
        None => no(reasons::UNASSIGNED, format!("{ip} is not assigned to a server")),
        Some(_) => no(reasons::ELSEWHERE, format!("{ip} is not on {name}")),
    }
}

fn provider_reachable(scene: &Assessment<'_>) -> Condition {
    let kind = kinds::PROVIDER_REACHABLE;
    match scene.world.cloud.trouble.as_ref() {
        Some(
            trouble @ (ProviderTrouble::NoToken(_)
            | ProviderTrouble::Unauthorized
            | ProviderTrouble::Unreachable(_)),
        ) => Condition::no(kind, reason(trouble), said(scene, trouble)),
        // Otherwise every throttled call would flip the condition.
        Some(trouble @ ProviderTrouble::Throttled) if scene.stale() => {
            Condition::no(kind, reason(trouble), said(scene, trouble))
        }
        _ if scene.world.cloud.seen.is_none() && scene.world.cloud.trouble.is_none() => {
            Condition::unknown(kind, reasons::STALE, "the provider was not called yet")
        }
        _ => Condition::yes(kind, reasons::ANSWERS, "the provider responds"),
    }
}

fn redundant(scene: &Assessment<'_>) -> Condition {
    let kind = kinds::REDUNDANT;
    let nodes = scene.world.nodes.iter();
    let fit: Vec<&str> = nodes
        .filter(|node| serves(scene, node))
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
    let why = why_not(scene);
    let message = match (fit.first(), why.as_str()) {
        (Some(name), "") => format!("{name} is the only candidate: label another node"),
        (Some(name), why) => format!("only {name} can hold the floating IP: {why}"),
        (None, "") => "no node is a candidate: label at least two".to_owned(),
        (None, why) => format!("no node can take the floating IP: {why}"),
    };
    Condition::no(kind, reason, message)
}

fn held(scene: &Assessment<'_>) -> Condition {
    match &scene.held {
        Some(held) => Condition::yes(kinds::HELD, reasons::HELD, held.message.clone()),
        None => Condition::no(kinds::HELD, reasons::NOT_HELD, "automation is not frozen"),
    }
}

/// Whether Node and CiliumNode have the same gateway labels; omitted without CiliumNodes.
fn labels_consistent(scene: &Assessment<'_>) -> Option<Condition> {
    let kind = kinds::LABELS_CONSISTENT;
    let nodes = || scene.world.nodes.iter();
    nodes().find(|node| node.cilium.is_some())?;
    let differs = |node: &&CandidateNode| {
        let labelled = |labels: LabelState| labels != LabelState::None;
        node.cilium
            .is_some_and(|c| labelled(c) != labelled(node.labels))
    };
    Some(match nodes().find(differs) {
        None => Condition::yes(kind, reasons::CONSISTENT, "Node and CiliumNode have the same gateway labels"),
        Some(node) => {
            let message = format!(
                "the gateway labels of {} differ between Node and CiliumNode",
                node.name
            );
            Condition::no(kind, reasons::INCONSISTENT, message)
        }
    })
}

/// Reported only for a problem, and not after a single failure, since the next write may succeed.
fn fenced(scene: &Assessment<'_>) -> Option<Condition> {
    let cloud = &scene.world.cloud;
    let failed = cloud.claim.as_ref().filter(|failed| failed.times > 1)?;
    // The write may have been applied although its response was lost.
    cloud
        .seen
        .as_ref()
        .filter(|it| it.term != scene.world.term)?;
    let why = unwritten(&failed.trouble);
    let message = format!("term label not written: {why}; an old leader would not notice this one");
    let reason = reasons::TERM_NOT_WRITTEN;
    Some(Condition::no(kinds::FENCED, reason, message))
}

/// Whether the object does not have this condition with this status and reason yet.
pub(super) fn is_news(scene: &Assessment<'_>, condition: &Condition) -> bool {
    let mut before = scene.world.status.conditions.iter();
    !before.any(|before| {
        before.type_ == condition.kind
            && before.reason == condition.reason
            && ConditionStatus::parse(&before.status) == Some(condition.status)
    })
}

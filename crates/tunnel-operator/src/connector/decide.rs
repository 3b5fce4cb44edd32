//! Turns an [`Observed`] into a [`Plan`]. Pure: the same input gives the same result, so that a pass without
//! news writes nothing.

use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{CONTROLLER, ConnectorClassSpec, LeaseRef, conditions, reasons};
use iroh_base::RelayUrl;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::{ConnectorStatusUpdate, Observed, Plan, ProofDemand, Words};
use crate::connector::liveness::{LivenessDecision, decide_liveness};

/// The reason of `Ready` when it is true.
const ONLINE: &str = "Online";

/// Decides the status of a Connector, or that its Lease must be read first.
pub(crate) fn decide(world: &Observed) -> Plan {
    let judgement = decide_liveness(&world.signals);
    let turned = world.signals.was_online != Some(judgement.online);
    let from_silence = judgement.reason == reasons::EXPIRED;
    if from_silence && world.signals.was_online == Some(true) {
        match (world.confirmed, world.late_decision) {
            (false, _) => return Plan::Confirm,
            (true, true) => return Plan::ExtendGrace,
            (true, false) => {}
        }
    }
    let accepted = accepted_condition(world);
    let ready = ready_condition(world, &accepted, &judgement);
    let online = online_condition(world, &judgement);
    let note = (turned && (judgement.online || world.signals.was_online.is_some()))
        .then(|| transition_note(&judgement, &online.message));
    Plan::Publish(Box::new(Words {
        status: status_update(world, &judgement, turned),
        conditions: vec![accepted, online, ready],
        note,
        proof_demand: proof_demand(&judgement),
        requeue_after: requeue_after(world, &judgement),
    }))
}

fn requeue_after(world: &Observed, judgement: &LivenessDecision) -> Option<Duration> {
    let contested = world.contested_until.map(|until| until - world.signals.now);
    let both = [judgement.recheck_after, contested];
    both.into_iter().flatten().min()
}

fn proof_demand(judgement: &LivenessDecision) -> ProofDemand {
    match judgement {
        it if it.late => ProofDemand::ProbeNow,
        it if it.online || it.reason == reasons::RELEASED => ProofDemand::NoDemand,
        _ => ProofDemand::AwaitProof,
    }
}

/// Its class, if this controller serves it.
fn served_class(world: &Observed) -> Option<&ConnectorClassSpec> {
    let class = world.class.as_ref();
    class.filter(|class| class.controller_name == CONTROLLER)
}

fn accepted_condition(world: &Observed) -> Condition {
    let name = &world.class_name;
    let no = |fix: String| Condition::new_false(conditions::ACCEPTED, reasons::CONNECTOR_CLASS_NOT_FOUND, fix);
    let mut relays = served_class(world).into_iter().flat_map(|class| &class.relays);
    if let Some(relay) = relays.find(|relay| !is_url(relay)) {
        let message = format!(
            "relay {relay:?} of ConnectorClass {name} is not a URL: use a form like \
             https://relay.example.com"
        );
        return Condition::new_false(conditions::ACCEPTED, reasons::INVALID_RELAY, message);
    }
    match &world.class {
        Some(_) if served_class(world).is_some() => {
            let message = format!("accepted by ConnectorClass {name}");
            Condition::new_true(conditions::ACCEPTED, reasons::ACCEPTED, message)
        }
        Some(class) => no(format!(
            "ConnectorClass {name} is served by {}: set spec.connectorClassName to one whose \
             controllerName is {CONTROLLER}",
            class.controller_name
        )),
        None => no(format!(
            "ConnectorClass {name} does not exist: create it or correct spec.connectorClassName"
        )),
    }
}

/// Whether agents and gateways can parse the URL of a relay. The schema accepts some that they cannot.
fn is_url(relay: &str) -> bool {
    relay.parse::<RelayUrl>().is_ok()
}

fn online_condition(world: &Observed, judgement: &LivenessDecision) -> Condition {
    let lease = world.signals.duration.as_secs();
    let message = match judgement.reason {
        reasons::RENEWED => "the agent renews its lease".to_owned(),
        reasons::SESSION_ALIVE => "the agent does not renew its lease but responds through its tunnels".to_owned(),
        reasons::RELEASED => "the agent was stopped: start it again".to_owned(),
        reasons::SESSION_LOST => {
            "no gateway can reach the agent: check that it runs and that UDP is not blocked".to_owned()
        }
        reasons::NEVER_SEEN => "no agent has connected yet: start one with `aplomb connect`".to_owned(),
        _ => format!("no heartbeat for {lease} s: check that the agent runs and reaches the API server"),
    };
    match judgement.online {
        true => Condition::new_true(conditions::ONLINE, judgement.reason, message),
        false => Condition::new_false(conditions::ONLINE, judgement.reason, message),
    }
}

fn ready_condition(world: &Observed, accepted: &Condition, judgement: &LivenessDecision) -> Condition {
    let no = |reason: &str, message: &str| Condition::new_false(conditions::READY, reason, message);
    let registered = world.status.connection_details.is_some();
    match (accepted.status, registered, judgement.online) {
        (ConditionStatus::False | ConditionStatus::Unknown, _, _) => no(&accepted.reason, &accepted.message),
        (ConditionStatus::True, false, _) => no(
            reasons::CONNECTOR_NOT_REGISTERED,
            "no agent has registered its addresses: start one with `aplomb connect`",
        ),
        (ConditionStatus::True, true, false) => no(judgement.reason, &online_condition(world, judgement).message),
        (ConditionStatus::True, true, true) => Condition::new_true(conditions::READY, ONLINE, "the agent is online"),
    }
}

fn transition_note(judgement: &LivenessDecision, message: &str) -> EventNote {
    match judgement.online {
        true => EventNote::normal("Online", "Judge", message),
        false if judgement.reason == reasons::RELEASED => EventNote::normal("Offline", "Judge", message),
        false => EventNote::warning("Offline", "Judge", message),
    }
}

/// Times and the heartbeat change only when the connector goes online or offline. Otherwise every pass would write.
fn status_update(world: &Observed, judgement: &LivenessDecision, turned: bool) -> ConnectorStatusUpdate {
    let class = served_class(world);
    let gateways = class.map(|class| match class.gateways.is_empty() {
        true => world.gateways.clone(),
        false => sorted(&class.gateways),
    });
    let before = &world.status;
    let mut said = ConnectorStatusUpdate {
        lease_ref: Some(LeaseRef {
            name: world.name.clone(),
            renew_time: before.lease_ref.as_ref().and_then(|lease| lease.renew_time.clone()),
        }),
        gateways,
        relays: class.map(|class| {
            let usable = class.relays.iter().filter(|relay| is_url(relay));
            usable.cloned().collect()
        }),
        last_seen: before.last_seen.clone(),
        offline_since: before.offline_since.clone(),
    };
    if turned {
        set_transition_times(&mut said, world, judgement);
    }
    said
}

fn set_transition_times(said: &mut ConnectorStatusUpdate, world: &Observed, judgement: &LivenessDecision) {
    if let Some(lease) = &mut said.lease_ref {
        lease.renew_time = world.heartbeat.map(MicroTime);
    }
    let heard = world
        .last_sign_of_life
        .map(|heard| truncate_to_seconds(world.clock - (world.signals.now - heard)));
    said.last_seen = heard.or(said.last_seen.take());
    said.offline_since = (!judgement.online && said.last_seen.is_some()).then(|| truncate_to_seconds(world.clock));
}

/// Kubernetes stores whole seconds; a fraction would differ from the stored value.
fn truncate_to_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests;

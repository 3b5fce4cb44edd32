//! From a [`Observed`] to a [`Plan`]. Pure: the same world gives the same words, so that a pass that finds
//! nothing new writes nothing.

use std::time::Duration;

use aplomb::conditions::ConditionStatus;
use aplomb::{Condition, EventNote};
use aplomb_api::tunnel::{CONTROLLER, ConnectorClassSpec, LeaseRef, conditions, reasons};
use iroh_base::RelayUrl;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::{ConnectorStatusUpdate, Observed, Plan, ProofDemand, Words};
use crate::liveness::{LivenessDecision, judge};

/// Why it is ready.
const ONLINE: &str = "Online";

/// What to say of a Connector, or to ask before.
pub(crate) fn decide(world: &Observed) -> Plan {
    let judgement = judge(&world.signs);
    let turned = world.signs.was != Some(judgement.online);
    let from_silence = judgement.reason == reasons::EXPIRED;
    if from_silence && world.signs.was == Some(true) {
        match (world.confirmed, world.overdue) {
            (false, _) => return Plan::Confirm,
            (true, true) => return Plan::Forgive,
            (true, false) => {}
        }
    }
    let accepted = accepted(world);
    let ready = ready(world, &accepted, &judgement);
    let online = online(world, &judgement);
    let note = (turned && (judgement.online || world.signs.was.is_some()))
        .then(|| note(&judgement, &online.message));
    Plan::Say(Box::new(Words {
        status: status(world, &judgement, turned),
        conditions: vec![accepted, online, ready],
        note,
        wish: wish(&judgement),
        again: again(world, &judgement),
    }))
}

fn again(world: &Observed, judgement: &LivenessDecision) -> Option<Duration> {
    let contested = world.contested_until.map(|until| until - world.signs.now);
    let both = [judgement.again, contested];
    both.into_iter().flatten().min()
}

fn wish(judgement: &LivenessDecision) -> ProofDemand {
    match judgement {
        it if it.late => ProofDemand::Now,
        it if it.online || it.reason == reasons::RELEASED => ProofDemand::Nothing,
        _ => ProofDemand::Await,
    }
}

/// Its class, if we serve it.
fn ours(world: &Observed) -> Option<&ConnectorClassSpec> {
    let class = world.class.as_ref();
    class.filter(|class| class.controller_name == CONTROLLER)
}

fn accepted(world: &Observed) -> Condition {
    let name = &world.class_name;
    let no = |fix: String| {
        Condition::new_false(
            conditions::ACCEPTED,
            reasons::CONNECTOR_CLASS_NOT_FOUND,
            fix,
        )
    };
    let mut relays = ours(world).into_iter().flat_map(|class| &class.relays);
    if let Some(relay) = relays.find(|relay| !is_url(relay)) {
        let message = format!(
            "relay {relay:?} of ConnectorClass {name} is not a URL: write it like \
             https://relay.example.com"
        );
        return Condition::new_false(conditions::ACCEPTED, reasons::INVALID_RELAY, message);
    }
    match &world.class {
        Some(_) if ours(world).is_some() => {
            let message = format!("of the class {name}");
            Condition::new_true(conditions::ACCEPTED, reasons::ACCEPTED, message)
        }
        Some(class) => no(format!(
            "ConnectorClass {name} is served by {}: set spec.connectorClassName to one whose \
             controllerName is {CONTROLLER}",
            class.controller_name
        )),
        None => no(format!(
            "there is no ConnectorClass {name}: create it, or correct spec.connectorClassName"
        )),
    }
}

/// Whether agents and gateways can read the URL of a relay: the schema takes some that they cannot.
fn is_url(relay: &str) -> bool {
    relay.parse::<RelayUrl>().is_ok()
}

fn online(world: &Observed, judgement: &LivenessDecision) -> Condition {
    let lease = world.signs.duration.as_secs();
    let message = match judgement.reason {
        reasons::RENEWED => "its agent renews its lease".to_owned(),
        reasons::SESSION_ALIVE => {
            "its agent does not renew its lease, but answers through its tunnels".to_owned()
        }
        reasons::RELEASED => "its agent was stopped: start it again to bring it back".to_owned(),
        reasons::SESSION_LOST => {
            "no gateway reaches its agent: see whether it runs, and whether UDP gets through"
                .to_owned()
        }
        reasons::NEVER_SEEN => "no agent has been heard of: start one for it".to_owned(),
        _ => format!(
            "nothing was heard of its agent for {lease} s: see whether it runs and reaches the API server"
        ),
    };
    match judgement.online {
        true => Condition::new_true(conditions::ONLINE, judgement.reason, message),
        false => Condition::new_false(conditions::ONLINE, judgement.reason, message),
    }
}

fn ready(world: &Observed, accepted: &Condition, judgement: &LivenessDecision) -> Condition {
    let no = |reason: &str, message: &str| Condition::new_false(conditions::READY, reason, message);
    let registered = world.status.connection_details.is_some();
    match (accepted.status, registered, judgement.online) {
        (ConditionStatus::False | ConditionStatus::Unknown, _, _) => {
            no(&accepted.reason, &accepted.message)
        }
        (ConditionStatus::True, false, _) => no(
            reasons::CONNECTOR_NOT_REGISTERED,
            "no agent has said how it is reached: start one for it",
        ),
        (ConditionStatus::True, true, false) => {
            no(judgement.reason, &online(world, judgement).message)
        }
        (ConditionStatus::True, true, true) => {
            Condition::new_true(conditions::READY, ONLINE, "its agent can be reached")
        }
    }
}

fn note(judgement: &LivenessDecision, message: &str) -> EventNote {
    match judgement.online {
        true => EventNote::normal("Online", "Judge", message),
        false if judgement.reason == reasons::RELEASED => {
            EventNote::normal("Offline", "Judge", message)
        }
        false => EventNote::warning("Offline", "Judge", message),
    }
}

/// Times and the heartbeat are those of the last turn: anything newer would make every pass write.
fn status(world: &Observed, judgement: &LivenessDecision, turned: bool) -> ConnectorStatusUpdate {
    let class = ours(world);
    let gateways = class.map(|class| match class.gateways.is_empty() {
        true => world.gateways.clone(),
        false => sorted(&class.gateways),
    });
    let before = &world.status;
    let mut said = ConnectorStatusUpdate {
        lease_ref: Some(LeaseRef {
            name: world.name.clone(),
            renew_time: before
                .lease_ref
                .as_ref()
                .and_then(|lease| lease.renew_time.clone()),
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
        turn(&mut said, world, judgement);
    }
    said
}

fn turn(said: &mut ConnectorStatusUpdate, world: &Observed, judgement: &LivenessDecision) {
    if let Some(lease) = &mut said.lease_ref {
        lease.renew_time = world.beat.map(MicroTime);
    }
    let heard = world
        .heard
        .map(|heard| whole(world.clock - (world.signs.now - heard)));
    said.last_seen = heard.or(said.last_seen.take());
    said.offline_since =
        (!judgement.online && said.last_seen.is_some()).then(|| whole(world.clock));
}

/// Kubernetes keeps times of whole seconds; a fraction would differ from what is read back.
fn whole(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

//! What can be said of a tunnel, condition by condition. A condition that does not apply is absent; one
//! that cannot be told is Unknown; none is ever True by default.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::tunnel::{ChildRevision, conditions as kinds, reasons};
use iroh_base::RelayUrl;

use super::hostnames::HostnameClaims;
use super::ready;
use super::revisions::{CONNECTOR, is_acknowledged, revisions};
use crate::evidence::{ProbeResult, probe_subject};
use crate::world::{ChildrenState, Observed, ObservedConnector};

/// What follows from a world, before it is said.
pub(super) struct TunnelAssessment<'a> {
    pub(super) world: &'a Observed,
    pub(super) hostname_claims: &'a HostnameClaims,
    /// What the gateways must have seen.
    pub(super) revisions: Vec<ChildRevision>,
    pub(super) programmed: Condition,
    pub(super) metadata: Option<Condition>,
    pub(super) online: Option<Condition>,
}

impl<'a> TunnelAssessment<'a> {
    pub(super) fn new(world: &'a Observed, held: &'a HostnameClaims) -> Self {
        let revisions = revisions(world);
        Self {
            programmed: programmed_condition(world, &revisions),
            metadata: metadata_condition(world, &revisions),
            online: online_condition(world),
            world,
            hostname_claims: held,
            revisions,
        }
    }

    /// Whether every live gateway serves the children.
    pub(super) fn is_programmed(&self) -> bool {
        self.programmed.status == ConditionStatus::True
    }

    /// Whether gateways still have to acknowledge something.
    pub(super) fn is_waiting(&self) -> bool {
        let metadata = self.metadata.as_ref();
        let lacks = |it: &Condition| it.status != ConditionStatus::True && !is_about_relay(it);
        !self.is_programmed() || metadata.is_some_and(lacks)
    }

    /// Whether a proof could succeed.
    pub(super) fn is_provable(&self) -> bool {
        let released = |seen: &ObservedConnector| {
            let online = seen.online.as_ref();
            online.is_some_and(|(online, reason, _)| !online && reason == reasons::RELEASED)
        };
        let mut connectors = self.world.connectors.values();
        !self.is_waiting() && !connectors.any(|it| it.as_ref().is_none_or(released))
    }

    /// Whether a proof is about something that has changed since.
    pub(super) fn is_stale(&self, evidence: &ProbeResult) -> bool {
        evidence.subject != probe_subject(self.world, &self.hostname_claims.accepted_hostnames())
    }

    /// Everything there is to say.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let mut all = vec![accepted_condition(), self.programmed.clone()];
        all.extend(self.metadata.clone());
        all.extend(self.online.clone());
        all.extend(hostnames_verified_condition(self.hostname_claims));
        all.extend(hostname_in_use_condition(self.hostname_claims));
        all.extend(ready::certificates_condition(self));
        all.extend(ready::origin_condition(self));
        let ready = ready::ready_condition(self, &all);
        if ready.status != ConditionStatus::True && self.is_waiting() {
            let what = "gateways have not acknowledged everything yet";
            all.push(Condition::yes(RECONCILING, reasons::PENDING, what));
        }
        all.push(ready);
        all
    }
}

/// What is said of a spec that nothing is made of.
pub(super) fn rejected_conditions(reason: &str, message: &str) -> Vec<Condition> {
    vec![
        Condition::no(kinds::ACCEPTED, reason, message),
        Condition::no(kinds::PROGRAMMED, reason, message),
        Condition::no(kinds::READY, reason, message),
    ]
}

fn accepted_condition() -> Condition {
    Condition::yes(kinds::ACCEPTED, reasons::ACCEPTED, "the spec is valid")
}

fn programmed_condition(world: &Observed, revisions: &[ChildRevision]) -> Condition {
    let no = |reason: &str, message: &str| Condition::no(kinds::PROGRAMMED, reason, message);
    if let Some(ChildrenState::Foreign(message)) = &world.progress.written {
        return no(reasons::CHILD_CONFLICT, message);
    }
    if !world.fresh {
        let message = "the gateways have not been heard of for too long to say";
        return Condition::unknown(kinds::PROGRAMMED, reasons::STALE, message);
    }
    if world.replicas.is_empty() {
        let message =
            "no gateway is alive: start one with `aplomb gateway`, or look at its Deployment";
        return no(reasons::NO_GATEWAY, message);
    }
    let bad = world
        .replicas
        .iter()
        .find_map(|it| it.quarantined.as_deref());
    let mut children = revisions
        .iter()
        .filter(|it| it.kind != CONNECTOR)
        .peekable();
    let known = children.peek().is_some();
    let seen = children.all(|it| world.replicas.iter().all(|replica| is_acknowledged(replica, it)));
    match (known && seen, bad) {
        (true, Some(bad)) => no(
            reasons::QUARANTINED,
            &format!("a gateway cannot serve it: {bad}"),
        ),
        (true, None) if world.replicas.iter().any(|it| it.quarantine_list_incomplete) => {
            let message = "a gateway leaves out more routes of this namespace, or has lost more of its \
                           connectors, than it can list";
            Condition::unknown(kinds::PROGRAMMED, reasons::REPORT_INCOMPLETE, message)
        }
        (true, None) => {
            let message = "every live gateway has acknowledged the children";
            Condition::yes(kinds::PROGRAMMED, reasons::PROGRAMMED, message)
        }
        (false, _) => no(
            reasons::PENDING,
            "gateways have not acknowledged the children yet",
        ),
    }
}

fn metadata_condition(world: &Observed, revisions: &[ChildRevision]) -> Option<Condition> {
    let kind = kinds::CONNECTOR_METADATA_PROGRAMMED;
    if world.connectors.is_empty() {
        return None;
    }
    if let Some(missing) = unregistered_connector(world) {
        return Some(Condition::no(kind, missing.0, missing.1));
    }
    if !world.fresh || world.replicas.is_empty() {
        let message = "no gateway is known to be alive";
        return Some(Condition::unknown(kind, reasons::NO_GATEWAY, message));
    }
    let mut connectors = revisions.iter().filter(|it| it.kind == CONNECTOR);
    let seen = connectors.all(|it| world.replicas.iter().all(|replica| is_acknowledged(replica, it)));
    if !seen {
        let message = "gateways have not acknowledged the connector's addresses yet";
        return Some(Condition::no(kind, reasons::PENDING, message));
    }
    let with = world.connectors.values().any(|it| connector_relay(it).is_some());
    let what = if with {
        "key, addresses and relay"
    } else {
        "key and addresses"
    };
    let message = format!("every live gateway has the connector's {what}");
    let applied = Condition::yes(kind, reasons::METADATA_APPLIED, message);
    Some(relay_missing_condition(world).unwrap_or(applied))
}

/// The relay that a connector is reached through, as its agent says it.
fn connector_relay(seen: &Option<ObservedConnector>) -> Option<&str> {
    let details = seen.as_ref()?.details.as_ref()?;
    details.public_key.home_relay.as_deref()
}

/// What to say if a gateway does not use the relay of a connector. It may reach the agent all the same.
fn relay_missing_condition(world: &Observed) -> Option<Condition> {
    let kind = kinds::CONNECTOR_METADATA_PROGRAMMED;
    let all = world.connectors.iter();
    all.filter_map(|(name, seen)| Some((name, connector_relay(seen)?)))
        .find_map(|(name, relay)| {
            let url = relay.parse::<RelayUrl>().ok();
            world.replicas.iter().find_map(|replica| match &replica.relays {
                None => Some(Condition::unknown(
                    kind,
                    reasons::RELAY_UNKNOWN,
                    format!(
                        "gateway {} does not report its relays: upgrade it and the definitions",
                        replica.name
                    ),
                )),
                Some(used) if url.as_ref().is_some_and(|url| used.contains(url)) => None,
                Some(_) => Some(Condition::no(
                    kind,
                    reasons::RELAY_NOT_USED,
                    format!(
                        "gateway {} does not use relay {relay} of Connector {name:?}: add it to a \
                         ConnectorClass",
                        replica.name
                    ),
                )),
            })
        })
}

/// Whether all that lacks is a relay, without which a connector may be reached directly.
pub(super) fn is_about_relay(condition: &Condition) -> bool {
    [reasons::RELAY_NOT_USED, reasons::RELAY_UNKNOWN].contains(&&*condition.reason)
}

/// A connector that is not there, or whose agent has never registered.
fn unregistered_connector(world: &Observed) -> Option<(&'static str, String)> {
    world.connectors.iter().find_map(|(name, seen)| match seen {
        None => Some((
            reasons::CONNECTOR_NOT_FOUND,
            format!(
                "there is no Connector {name:?} in this namespace: start its agent with \
                 `aplomb connect`, or name another"
            ),
        )),
        Some(seen) if seen.details.is_none() => Some((
            reasons::CONNECTOR_NOT_REGISTERED,
            format!("the agent of Connector {name:?} has not registered yet"),
        )),
        Some(_) => None,
    })
}

fn online_condition(world: &Observed) -> Option<Condition> {
    let kind = kinds::CONNECTOR_ONLINE;
    if world.connectors.is_empty() {
        return None;
    }
    if let Some((reason, message)) = unregistered_connector(world) {
        return Some(Condition::no(kind, reason, message));
    }
    let mut offline = world.connectors.iter().filter_map(|(name, seen)| {
        let (online, reason, message) = seen.as_ref()?.online.as_ref()?;
        (!online).then_some((name, reason, message))
    });
    if let Some((name, reason, message)) = offline.next() {
        return Some(Condition::no(
            kind,
            reason,
            format!("Connector {name:?}: {message}"),
        ));
    }
    let judged =
        |seen: &Option<ObservedConnector>| seen.as_ref().is_some_and(|seen| seen.online.is_some());
    Some(match world.connectors.values().all(judged) {
        true => Condition::yes(kind, "Online", "every connector is online"),
        false => Condition::unknown(
            kind,
            reasons::PENDING,
            "a connector has not been judged yet",
        ),
    })
}

fn hostnames_verified_condition(held: &HostnameClaims) -> Option<Condition> {
    let kind = kinds::HOSTNAMES_VERIFIED;
    if held.statuses.len() < 2 {
        return None;
    }
    Some(match held.rejected_hostnames().next() {
        None => Condition::yes(
            kind,
            reasons::HOSTNAMES_VERIFIED,
            "every hostname is this tunnel's",
        ),
        Some(refused) => {
            let (reason, _) = split_reason(&refused.reason);
            Condition::no(
                kind,
                reason,
                format!("{}: {}", refused.hostname, refused.reason),
            )
        }
    })
}

/// Present only while it holds.
fn hostname_in_use_condition(held: &HostnameClaims) -> Option<Condition> {
    let taken: Vec<String> = held
        .rejected_hostnames()
        .filter(|it| split_reason(&it.reason).0 == reasons::HOSTNAME_IN_USE)
        .map(|it| format!("{} is {}", it.hostname, split_reason(&it.reason).1))
        .collect();
    let message = taken.join("; ");
    (!taken.is_empty())
        .then(|| Condition::yes(kinds::HOSTNAMES_IN_USE, reasons::HOSTNAME_IN_USE, message))
}

/// The word and the sentence of a hostname's reason.
pub(super) fn split_reason(reason: &str) -> (&str, &str) {
    reason.split_once(": ").unwrap_or((reason, ""))
}

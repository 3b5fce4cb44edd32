//! Computes the conditions of a tunnel. A condition that does not apply is absent; one that cannot be
//! determined is Unknown; none is True by default.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::tunnel::{ChildRevision, conditions as kinds, reasons};
use iroh_base::RelayUrl;

use super::hostnames::HostnameClaims;
use super::ready;
use super::revisions::{CONNECTOR, is_acknowledged, revisions};
use crate::httpproxy::{ChildrenState, Observed, ObservedConnector};
use crate::probe::result::{ProbeResult, probe_subject};

/// What the observed state of a tunnel implies, before it becomes conditions.
pub(super) struct TunnelAssessment<'a> {
    pub(super) world: &'a Observed,
    pub(super) hostname_claims: &'a HostnameClaims,
    /// The revisions that gateways must acknowledge.
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

    pub(super) fn is_programmed(&self) -> bool {
        self.programmed.status == ConditionStatus::True
    }

    pub(super) fn is_waiting(&self) -> bool {
        let metadata = self.metadata.as_ref();
        let lacks = |it: &Condition| it.status != ConditionStatus::True && !is_about_relay(it);
        !self.is_programmed() || metadata.is_some_and(lacks)
    }

    pub(super) fn is_provable(&self) -> bool {
        let released = |seen: &ObservedConnector| {
            let online = seen.online.as_ref();
            online.is_some_and(|(online, reason, _)| !online && reason == reasons::RELEASED)
        };
        let mut connectors = self.world.connectors.values();
        !self.is_waiting() && !connectors.any(|it| it.as_ref().is_none_or(released))
    }

    /// Whether the state has changed since the proof.
    pub(super) fn is_stale(&self, evidence: &ProbeResult) -> bool {
        evidence.subject != probe_subject(self.world, &self.hostname_claims.accepted_hostnames())
    }

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
            let what = "waiting for gateways to acknowledge the latest changes";
            all.push(Condition::new_true(RECONCILING, reasons::PENDING, what));
        }
        all.push(ready);
        all
    }
}

/// The conditions of a spec that cannot be served.
pub(super) fn rejected_conditions(reason: &str, message: &str) -> Vec<Condition> {
    vec![
        Condition::new_false(kinds::ACCEPTED, reason, message),
        Condition::new_false(kinds::PROGRAMMED, reason, message),
        Condition::new_false(kinds::READY, reason, message),
    ]
}

fn accepted_condition() -> Condition {
    Condition::new_true(kinds::ACCEPTED, reasons::ACCEPTED, "the spec is valid")
}

fn programmed_condition(world: &Observed, revisions: &[ChildRevision]) -> Condition {
    let no = |reason: &str, message: &str| Condition::new_false(kinds::PROGRAMMED, reason, message);
    if let Some(ChildrenState::Foreign(message)) = &world.progress.written {
        return no(reasons::CHILD_CONFLICT, message);
    }
    if !world.fresh {
        let message = "the operator has lost its watch on gateways: check that it can reach the API server";
        return Condition::new_unknown(kinds::PROGRAMMED, reasons::STALE, message);
    }
    if world.replicas.is_empty() {
        let message = "no gateway is running: start one with `aplomb gateway` or check its Deployment";
        return no(reasons::NO_GATEWAY, message);
    }
    let bad = world.replicas.iter().find_map(|it| it.quarantined.as_deref());
    let mut children = revisions.iter().filter(|it| it.kind != CONNECTOR).peekable();
    let known = children.peek().is_some();
    let seen = children.all(|it| world.replicas.iter().all(|replica| is_acknowledged(replica, it)));
    match (known && seen, bad) {
        (true, Some(bad)) => no(
            reasons::QUARANTINED,
            &format!("a gateway cannot serve the route: {bad}"),
        ),
        (true, None) if world.replicas.iter().any(|it| it.quarantine_list_incomplete) => {
            let message = "a gateway omits more routes of this namespace, or has lost more of its \
                           connectors, than it can report";
            Condition::new_unknown(kinds::PROGRAMMED, reasons::REPORT_INCOMPLETE, message)
        }
        (true, None) => {
            let message = "every live gateway serves the current version";
            Condition::new_true(kinds::PROGRAMMED, reasons::PROGRAMMED, message)
        }
        (false, _) => no(reasons::PENDING, "waiting for gateways to serve the current version"),
    }
}

fn metadata_condition(world: &Observed, revisions: &[ChildRevision]) -> Option<Condition> {
    let kind = kinds::CONNECTOR_METADATA_PROGRAMMED;
    if world.connectors.is_empty() {
        return None;
    }
    if let Some(missing) = unregistered_connector(world) {
        return Some(Condition::new_false(kind, missing.0, missing.1));
    }
    if !world.fresh || world.replicas.is_empty() {
        let message = "no gateway is running";
        return Some(Condition::new_unknown(kind, reasons::NO_GATEWAY, message));
    }
    let mut connectors = revisions.iter().filter(|it| it.kind == CONNECTOR);
    let seen = connectors.all(|it| world.replicas.iter().all(|replica| is_acknowledged(replica, it)));
    if !seen {
        let message = "waiting for gateways to load the connector's addresses";
        return Some(Condition::new_false(kind, reasons::PENDING, message));
    }
    let with = world.connectors.values().any(|it| connector_relay(it).is_some());
    let what = if with {
        "key, addresses and relay"
    } else {
        "key and addresses"
    };
    let message = format!("every live gateway has the connector's {what}");
    let applied = Condition::new_true(kind, reasons::METADATA_APPLIED, message);
    Some(relay_missing_condition(world).unwrap_or(applied))
}

/// The relay in the connection details of a connector.
fn connector_relay(seen: &Option<ObservedConnector>) -> Option<&str> {
    let details = seen.as_ref()?.details.as_ref()?;
    details.public_key.home_relay.as_deref()
}

/// Set if a gateway does not use the connector's relay. It may still reach the agent directly.
fn relay_missing_condition(world: &Observed) -> Option<Condition> {
    let kind = kinds::CONNECTOR_METADATA_PROGRAMMED;
    let all = world.connectors.iter();
    all.filter_map(|(name, seen)| Some((name, connector_relay(seen)?)))
        .find_map(|(name, relay)| {
            let url = relay.parse::<RelayUrl>().ok();
            world.replicas.iter().find_map(|replica| match &replica.relays {
                None => Some(Condition::new_unknown(
                    kind,
                    reasons::RELAY_UNKNOWN,
                    format!(
                        "gateway {} does not report its relays: upgrade it and the CRDs",
                        replica.name
                    ),
                )),
                Some(used) if url.as_ref().is_some_and(|url| used.contains(url)) => None,
                Some(_) => Some(Condition::new_false(
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

/// Whether only a relay is missing. The connector may still be reachable directly.
pub(crate) fn is_about_relay(condition: &Condition) -> bool {
    [reasons::RELAY_NOT_USED, reasons::RELAY_UNKNOWN].contains(&&*condition.reason)
}

/// A connector that does not exist, or whose agent has never registered.
fn unregistered_connector(world: &Observed) -> Option<(&'static str, String)> {
    world.connectors.iter().find_map(|(name, seen)| match seen {
        None => Some((
            reasons::CONNECTOR_NOT_FOUND,
            format!(
                "Connector {name:?} does not exist in this namespace: start its agent with \
                 `aplomb connect` or correct the name"
            ),
        )),
        Some(seen) if seen.details.is_none() => Some((
            reasons::CONNECTOR_NOT_REGISTERED,
            format!("the agent of Connector {name:?} has not registered yet: check that it runs"),
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
        return Some(Condition::new_false(kind, reason, message));
    }
    let mut offline = world.connectors.iter().filter_map(|(name, seen)| {
        let (online, reason, message) = seen.as_ref()?.online.as_ref()?;
        (!online).then_some((name, reason, message))
    });
    if let Some((name, reason, message)) = offline.next() {
        return Some(Condition::new_false(
            kind,
            reason,
            format!("Connector {name:?}: {message}"),
        ));
    }
    let judged = |seen: &Option<ObservedConnector>| seen.as_ref().is_some_and(|seen| seen.online.is_some());
    Some(match world.connectors.values().all(judged) {
        true => Condition::new_true(kind, "Online", "every connector is online"),
        false => Condition::new_unknown(kind, reasons::PENDING, "the state of a connector is not known yet"),
    })
}

fn hostnames_verified_condition(held: &HostnameClaims) -> Option<Condition> {
    let kind = kinds::HOSTNAMES_VERIFIED;
    if held.statuses.len() < 2 {
        return None;
    }
    Some(match held.rejected_hostnames().next() {
        None => Condition::new_true(kind, reasons::HOSTNAMES_VERIFIED, "this HTTPProxy owns every hostname"),
        Some(refused) => {
            let (reason, _) = split_reason(&refused.reason);
            Condition::new_false(kind, reason, format!("{}: {}", refused.hostname, refused.reason))
        }
    })
}

/// Present only while it is true.
fn hostname_in_use_condition(held: &HostnameClaims) -> Option<Condition> {
    let taken: Vec<String> = held
        .rejected_hostnames()
        .filter(|it| split_reason(&it.reason).0 == reasons::HOSTNAME_IN_USE)
        .map(|it| format!("{} is {}", it.hostname, split_reason(&it.reason).1))
        .collect();
    let message = taken.join("; ");
    (!taken.is_empty()).then(|| Condition::new_true(kinds::HOSTNAMES_IN_USE, reasons::HOSTNAME_IN_USE, message))
}

/// Splits a hostname's reason into its CamelCase word and its message.
pub(super) fn split_reason(reason: &str) -> (&str, &str) {
    reason.split_once(": ").unwrap_or((reason, ""))
}

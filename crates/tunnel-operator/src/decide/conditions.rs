//! Computes the conditions of a tunnel. A condition that does not apply is absent; one that cannot be
//! determined is Unknown; none is True by default.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::tunnel::{ChildRevision, conditions as kinds, reasons};
use iroh_base::RelayUrl;

use super::hostnames::HostnameClaims;
use super::ready;
use super::revisions::{CONNECTOR, passed, revisions};
use crate::evidence::{ProbeResult, subject};
use crate::world::{ChildrenState, Observed, ObservedConnector};

/// What the observed state of a tunnel implies, before it becomes conditions.
pub(super) struct TunnelAssessment<'a> {
    pub(super) world: &'a Observed,
    pub(super) held: &'a HostnameClaims,
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
            programmed: programmed(world, &revisions),
            metadata: metadata(world, &revisions),
            online: online(world),
            world,
            held,
            revisions,
        }
    }

    /// Whether every live gateway serves the children.
    pub(super) fn is_programmed(&self) -> bool {
        self.programmed.status == ConditionStatus::True
    }

    /// Whether gateways still have to acknowledge a revision.
    pub(super) fn waiting(&self) -> bool {
        let metadata = self.metadata.as_ref();
        let lacks = |it: &Condition| it.status != ConditionStatus::True && !is_about_relay(it);
        !self.is_programmed() || metadata.is_some_and(lacks)
    }

    /// Whether a proof could succeed.
    pub(super) fn provable(&self) -> bool {
        let released = |seen: &ObservedConnector| {
            let online = seen.online.as_ref();
            online.is_some_and(|(online, reason, _)| !online && reason == reasons::RELEASED)
        };
        let mut connectors = self.world.connectors.values();
        !self.waiting() && !connectors.any(|it| it.as_ref().is_none_or(released))
    }

    /// Whether the state has changed since the proof.
    pub(super) fn stale(&self, evidence: &ProbeResult) -> bool {
        evidence.subject != subject(self.world, &self.held.served())
    }

    /// All conditions of the tunnel.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let mut all = vec![accepted(), self.programmed.clone()];
        all.extend(self.metadata.clone());
        all.extend(self.online.clone());
        all.extend(verified(self.held));
        all.extend(in_use(self.held));
        all.extend(ready::certificates(self));
        all.extend(ready::origin(self));
        let ready = ready::ready(self, &all);
        if ready.status != ConditionStatus::True && self.waiting() {
            let what = "waiting for gateways to acknowledge the latest changes";
            all.push(Condition::yes(RECONCILING, reasons::PENDING, what));
        }
        all.push(ready);
        all
    }
}

/// The conditions of a spec that cannot be served.
pub(super) fn refused(reason: &str, message: &str) -> Vec<Condition> {
    vec![
        Condition::no(kinds::ACCEPTED, reason, message),
        Condition::no(kinds::PROGRAMMED, reason, message),
        Condition::no(kinds::READY, reason, message),
    ]
}

fn accepted() -> Condition {
    Condition::yes(kinds::ACCEPTED, reasons::ACCEPTED, "the spec is valid")
}

fn programmed(world: &Observed, revisions: &[ChildRevision]) -> Condition {
    let no = |reason: &str, message: &str| Condition::no(kinds::PROGRAMMED, reason, message);
    if let Some(ChildrenState::Foreign(message)) = &world.progress.written {
        return no(reasons::CHILD_CONFLICT, message);
    }
    if !world.fresh {
        let message = "the operator has lost its watch on gateways: check that it can reach the API server";
        return Condition::unknown(kinds::PROGRAMMED, reasons::STALE, message);
    }
    if world.replicas.is_empty() {
        let message =
            "no gateway is running: start one with `aplomb gateway` or check its Deployment";
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
    let seen = children.all(|it| world.replicas.iter().all(|replica| passed(replica, it)));
    match (known && seen, bad) {
        (true, Some(bad)) => no(
            reasons::QUARANTINED,
            &format!("a gateway cannot serve the route: {bad}"),
        ),
        (true, None) if world.replicas.iter().any(|it| it.incomplete) => {
            let message = "a gateway omits more routes of this namespace, or has lost more of its \
                           connectors, than it can report";
            Condition::unknown(kinds::PROGRAMMED, reasons::REPORT_INCOMPLETE, message)
        }
        (true, None) => {
            let message = "every live gateway serves the current version";
            Condition::yes(kinds::PROGRAMMED, reasons::PROGRAMMED, message)
        }
        (false, _) => no(
            reasons::PENDING,
            "waiting for gateways to serve the current version",
        ),
    }
}

fn metadata(world: &Observed, revisions: &[ChildRevision]) -> Option<Condition> {
    let kind = kinds::CONNECTOR_METADATA_PROGRAMMED;
    if world.connectors.is_empty() {
        return None;
    }
    if let Some(missing) = unregistered(world) {
        return Some(Condition::no(kind, missing.0, missing.1));
    }
    if !world.fresh || world.replicas.is_empty() {
        let message = "no gateway is running";
        return Some(Condition::unknown(kind, reasons::NO_GATEWAY, message));
    }
    let mut connectors = revisions.iter().filter(|it| it.kind == CONNECTOR);
    let seen = connectors.all(|it| world.replicas.iter().all(|replica| passed(replica, it)));
    if !seen {
        let message = "waiting for gateways to load the connector's addresses";
        return Some(Condition::no(kind, reasons::PENDING, message));
    }
    let with = world.connectors.values().any(|it| relay(it).is_some());
    let what = if with {
        "key, addresses and relay"
    } else {
        "key and addresses"
    };
    let message = format!("every live gateway has the connector's {what}");
    let applied = Condition::yes(kind, reasons::METADATA_APPLIED, message);
    Some(without_relay(world).unwrap_or(applied))
}

/// The relay in the connection details of a connector.
fn relay(seen: &Option<ObservedConnector>) -> Option<&str> {
    let details = seen.as_ref()?.details.as_ref()?;
    details.public_key.home_relay.as_deref()
}

/// Set if a gateway does not use the connector's relay. It may still reach the agent directly.
fn without_relay(world: &Observed) -> Option<Condition> {
    let kind = kinds::CONNECTOR_METADATA_PROGRAMMED;
    let all = world.connectors.iter();
    all.filter_map(|(name, seen)| Some((name, relay(seen)?)))
        .find_map(|(name, relay)| {
            let url = relay.parse::<RelayUrl>().ok();
            world.replicas.iter().find_map(|replica| match &replica.relays {
                None => Some(Condition::unknown(
                    kind,
                    reasons::RELAY_UNKNOWN,
                    format!(
                        "gateway {} does not report its relays: upgrade it and the CRDs",
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

/// Whether only a relay is missing. The connector may still be reachable directly.
pub(super) fn is_about_relay(condition: &Condition) -> bool {
    [reasons::RELAY_NOT_USED, reasons::RELAY_UNKNOWN].contains(&&*condition.reason)
}

/// A connector that does not exist, or whose agent has never registered.
fn unregistered(world: &Observed) -> Option<(&'static str, String)> {
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

fn online(world: &Observed) -> Option<Condition> {
    let kind = kinds::CONNECTOR_ONLINE;
    if world.connectors.is_empty() {
        return None;
    }
    if let Some((reason, message)) = unregistered(world) {
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
            "the state of a connector is not known yet",
        ),
    })
}

fn verified(held: &HostnameClaims) -> Option<Condition> {
    let kind = kinds::HOSTNAMES_VERIFIED;
    if held.statuses.len() < 2 {
        return None;
    }
    Some(match held.refused().next() {
        None => Condition::yes(
            kind,
            reasons::HOSTNAMES_VERIFIED,
            "this HTTPProxy owns every hostname",
        ),
        Some(refused) => {
            let (reason, _) = split(&refused.reason);
            Condition::no(
                kind,
                reason,
                format!("{}: {}", refused.hostname, refused.reason),
            )
        }
    })
}

/// Present only while it is true.
fn in_use(held: &HostnameClaims) -> Option<Condition> {
    let taken: Vec<String> = held
        .refused()
        .filter(|it| split(&it.reason).0 == reasons::HOSTNAME_IN_USE)
        .map(|it| format!("{} is {}", it.hostname, split(&it.reason).1))
        .collect();
    let message = taken.join("; ");
    (!taken.is_empty())
        .then(|| Condition::yes(kinds::HOSTNAMES_IN_USE, reasons::HOSTNAME_IN_USE, message))
}

/// Splits a hostname's reason into its CamelCase word and its message.
pub(super) fn split(reason: &str) -> (&str, &str) {
    reason.split_once(": ").unwrap_or((reason, ""))
}

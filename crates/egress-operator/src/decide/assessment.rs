//! The input of a decision with what follows directly from it: all parts of a decision read this.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use aplomb_api::egress::reasons;
use jiff::Timestamp;

use super::election::{ActiveHold, Election, active_hold, elect};
use super::health::{GatewayHealth, gateway_health, is_promotable};
use super::messages::{add_span, elapsed_between, truncate_micros};
use crate::egress::{CandidateNode, LabelState, Observed, ProviderTrouble};

/// How long a leader stands down for a newer term: longer than any lease. If it still leads afterwards, the term is
/// left over from a lease that was deleted.
const STAND_DOWN_TIME: Duration = Duration::from_secs(60);

/// The input of a decision with what follows directly from it.
#[derive(Debug)]
pub(super) struct Assessment<'a> {
    pub(super) observed: &'a Observed,
    /// Wall time, rounded to the precision of the status.
    pub(super) now: Timestamp,
    pub(super) held: Option<ActiveHold>,
    /// The nodes with gateway labels, and their state.
    pub(super) gateway_health: Vec<(&'a CandidateNode, GatewayHealth)>,
    pub(super) election: Election<'a>,
    pub(super) foreign: Option<ForeignAssignment>,
    /// Why the floating IP's address is not allowed, if it is not.
    pub(super) refusal: Option<String>,
}

impl<'a> Assessment<'a> {
    pub(super) fn new(world: &'a Observed) -> Self {
        let now = truncate_micros(world.now);
        let labelled = world.nodes.iter().filter(|n| n.labels != LabelState::None);
        let standings: Vec<_> = labelled.map(|node| (node, gateway_health(world, now, node))).collect();
        let seen = world.floating_ip.observed.as_ref();
        let refusal = seen.and_then(|seen| allowlist_refusal(&world.spec.allowlist, seen.ip));
        Self {
            election: elect(world, now, &standings),
            gateway_health: standings,
            held: active_hold(world, now),
            foreign: foreign_assignment(world, now),
            refusal,
            now,
            observed: world,
        }
    }

    /// Whether nothing may be written, neither to the provider nor to a node.
    pub(super) fn is_frozen(&self) -> bool {
        let unwatched = self.observed.unwatched.is_some();
        self.held.is_some() || self.refusal.is_some() || unwatched || self.is_outranked()
    }

    /// Whether a newer leader has acted on the floating IP.
    pub(super) fn is_outranked(&self) -> bool {
        self.has_newer_term() && !self.has_stood_down()
    }

    /// Whether the floating IP has the term of a newer leader.
    pub(super) fn has_newer_term(&self) -> bool {
        let seen = self.observed.floating_ip.observed.as_ref();
        let newer = seen.is_some_and(|seen| seen.term > self.observed.term);
        newer && self.observed.term > 0
    }

    /// Whether overwriting the present term with this leader's has failed.
    pub(super) fn term_write_failed(&self) -> bool {
        let cloud = &self.observed.floating_ip;
        let there = cloud.observed.as_ref().map(|seen| seen.term);
        there.is_some() && cloud.term_failure.as_ref().map(|failed| failed.replaced_term) == there
    }

    /// Whether this leader has reported long enough that it stands down. If the clock was set back since, the time it
    /// has led decides.
    fn has_stood_down(&self) -> bool {
        if self.term_write_failed() {
            // A write was attempted, so this leader had stood down before; its conditions have changed since.
            return true;
        }
        let mut conditions = self.observed.status.conditions.iter();
        conditions.any(|condition| {
            let since = condition.last_transition_time.0;
            let stood = if since > self.now {
                self.observed.leading_for
            } else {
                elapsed_between(since, self.now)
            };
            condition.reason == reasons::NEWER_LEADER && stood >= STAND_DOWN_TIME
        })
    }

    /// Whether the last read of the floating IP is too old to rely on.
    pub(super) fn is_stale(&self) -> bool {
        let most = (self.observed.floating_ip.resync * 5).max(Duration::from_secs(300));
        let seen = self.observed.floating_ip.observed.as_ref();
        seen.is_none_or(|seen| self.observed.uptime.saturating_sub(seen.at) > most)
    }

    /// Whether the rate limit is the only obstacle.
    pub(super) fn is_throttled(&self) -> bool {
        self.observed.floating_ip.trouble == Some(ProviderTrouble::Throttled)
    }

    /// Whether the gateway is left alone because of a grace period or the move limit.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.election, Election::Grace { .. } | Election::Capped { .. })
    }
}

/// The floating IP was moved to a foreign server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForeignAssignment {
    /// When that was first seen.
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
}

/// Whether the floating IP was moved to a server outside the candidates.
fn foreign_assignment(world: &Observed, now: Timestamp) -> Option<ForeignAssignment> {
    let seen = world.floating_ip.observed.as_ref()?;
    let server = seen.server?;
    // The spec refers to another floating IP than before, so this one was not moved.
    if world.status.floating_ip_id.is_some_and(|id| id != seen.id) {
        return None;
    }
    let known = world.status.elsewhere_since.as_ref();
    // On first sight the floating IP is only assigned somewhere; it was not taken away.
    world.status.active_node.as_ref()?;
    let was_there = world.status.server_id == Some(server) && known.is_none();
    let node = current_holder(world);
    if was_there || node.is_some_and(|node| is_own_node(world, node)) {
        return None;
    }
    let since = known.map_or(now, |since| since.0.min(now));
    let until = add_span(since, world.spec.respect_foreign_moves.0);
    Some(ForeignAssignment { since, until })
}

/// The node that holds the floating IP, if known.
pub(super) fn current_holder(world: &Observed) -> Option<&CandidateNode> {
    let server = world.floating_ip.observed.as_ref()?.server?;
    world.nodes.iter().find(|node| node.server == Some(server))
}

fn is_own_node(world: &Observed, node: &CandidateNode) -> bool {
    let status = &world.status;
    let is = |name: Option<&String>| name == Some(&node.name);
    node.labels != LabelState::None
        || is_promotable(&world.spec, node)
        || is(status.active_node.as_ref())
        || is(status.moving.as_ref().map(|moving| &moving.to))
}

/// A network, as `192.0.2.0/24` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    bits: u8,
}

/// Text that cannot be parsed as a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network: write it like 192.0.2.0/24 or 192.0.2.7/32")]
pub struct InvalidCidr(String);

impl Cidr {
    /// Whether the network contains `address`. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let wrong = || InvalidCidr(text.to_owned());
        let (network, bits) = text.split_once('/').ok_or_else(wrong)?;
        let network: IpAddr = network.parse().map_err(|_| wrong())?;
        let digits = (1..=3).contains(&bits.len()) && bits.bytes().all(|b| b.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { network, bits })
    }
}

/// Why `address` is not allowed, if it is not. An entry that cannot be parsed allows nothing.
pub(super) fn allowlist_refusal(allowlist: &[String], address: IpAddr) -> Option<String> {
    if allowlist.is_empty() {
        return None;
    }
    let mut unreadable = None;
    for entry in allowlist {
        match entry.parse::<Cidr>() {
            Ok(network) if network.contains(address) => return None,
            Ok(_) => {}
            Err(wrong) => unreadable = unreadable.or(Some(wrong)),
        }
    }
    let networks = allowlist.join(", ");
    Some(match unreadable {
        Some(wrong) => format!("{address} is not in any network of spec.allowlist, where {wrong}"),
        None => format!("{address} is not in spec.allowlist ({networks}): add it, or choose another floating IP"),
    })
}

//! The input of a decision with what follows directly from it. All parts of a decision read this.

use std::time::Duration;

use aplomb_api::egress::reasons;
use jiff::Timestamp;

use super::allowlist;
use super::election::{Election, elect};
use super::elsewhere::{ForeignAssignment, foreign_assignment};
use super::health::{GatewayHealth, gateway_health};
use super::hold::{ActiveHold, active_hold};
use super::tidings::{elapsed_between, truncate_micros};
use crate::world::{CandidateNode, LabelState, Observed, ProviderTrouble};

/// How long a leader stands down for a newer term: longer than any lease. If it still leads
/// afterwards, the term is left over from a lease that was deleted.
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
    /// Assesses `world`.
    pub(super) fn new(world: &'a Observed) -> Self {
        let now = truncate_micros(world.now);
        let labelled = world.nodes.iter().filter(|n| n.labels != LabelState::None);
        let standings: Vec<_> = labelled.map(|node| (node, gateway_health(world, now, node))).collect();
        let seen = world.floating_ip.observed.as_ref();
        let refusal = seen.and_then(|seen| allowlist::allowlist_refusal(&world.spec.allowlist, seen.ip));
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

    /// Whether this leader has reported long enough that it stands down. If the clock was set back
    /// since, the time it has led decides.
    fn has_stood_down(&self) -> bool {
        if self.term_write_failed() {
            // A write was attempted, so this leader had stood down before; its conditions have
            // changed since.
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

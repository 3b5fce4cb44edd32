//! A world, and what follows from it at once: what every other part of a decision looks at.

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

/// How long a leader stands down before a newer leader's term: longer than any lease. One that still
/// leads then is the newest, and the term a leftover of a lease that was deleted.
const STAND_DOWN_TIME: Duration = Duration::from_secs(60);

/// A world, and what follows from it at once.
#[derive(Debug)]
pub(super) struct Assessment<'a> {
    pub(super) observed: &'a Observed,
    /// Wall time, as fine as it is written.
    pub(super) now: Timestamp,
    pub(super) held: Option<ActiveHold>,
    /// The nodes with gateway labels, and how they stand.
    pub(super) gateway_health: Vec<(&'a CandidateNode, GatewayHealth)>,
    pub(super) election: Election<'a>,
    pub(super) foreign: Option<ForeignAssignment>,
    /// Why the floating IP's address may not be used, if it may not.
    pub(super) refusal: Option<String>,
}

impl<'a> Assessment<'a> {
    /// `world`, judged.
    pub(super) fn new(world: &'a Observed) -> Self {
        let now = truncate_micros(world.now);
        let labelled = world.nodes.iter().filter(|n| n.labels != LabelState::None);
        let standings: Vec<_> = labelled
            .map(|node| (node, gateway_health(world, now, node)))
            .collect();
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

    /// Whether nothing may be written, neither at the provider nor on a node.
    pub(super) fn is_frozen(&self) -> bool {
        let unwatched = self.observed.unwatched.is_some();
        self.held.is_some() || self.refusal.is_some() || unwatched || self.is_outranked()
    }

    /// Whether a newer leader has acted on the floating IP.
    pub(super) fn is_outranked(&self) -> bool {
        self.has_newer_term() && !self.has_stood_down()
    }

    /// Whether the floating IP carries the term of a newer leader.
    pub(super) fn has_newer_term(&self) -> bool {
        let seen = self.observed.floating_ip.observed.as_ref();
        let newer = seen.is_some_and(|seen| seen.term > self.observed.term);
        newer && self.observed.term > 0
    }

    /// Whether writing this leader's term over the one that is there has failed.
    pub(super) fn term_write_failed(&self) -> bool {
        let cloud = &self.observed.floating_ip;
        let there = cloud.observed.as_ref().map(|seen| seen.term);
        there.is_some() && cloud.term_failure.as_ref().map(|failed| failed.replaced_term) == there
    }

    /// Whether this leader has said long enough that it stands down: only one that still leads can
    /// have written that. Where the clock was set back since, how long it leads counts.
    fn has_stood_down(&self) -> bool {
        if self.term_write_failed() {
            // It was tried, so this leader had stood down; what its conditions say now is something else.
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

    /// Whether what is known of the floating IP is too old to be believed.
    pub(super) fn is_stale(&self) -> bool {
        let most = (self.observed.floating_ip.resync * 5).max(Duration::from_secs(300));
        let seen = self.observed.floating_ip.observed.as_ref();
        seen.is_none_or(|seen| self.observed.uptime.saturating_sub(seen.at) > most)
    }

    /// Whether the rate limit is all that stands in the way.
    pub(super) fn is_throttled(&self) -> bool {
        self.observed.floating_ip.trouble == Some(ProviderTrouble::Throttled)
    }

    /// Whether a grace is running, or a cap: the gateway is left alone.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(
            self.election,
            Election::Grace { .. } | Election::Capped { .. }
        )
    }
}

//! The input of a decision with what follows directly from it. All parts of a decision read this.

use std::time::Duration;

use aplomb_api::egress::reasons;
use jiff::Timestamp;

use super::allowlist;
use super::election::{Election, elect};
use super::elsewhere::{ForeignAssignment, elsewhere};
use super::health::{GatewayHealth, standing};
use super::hold::{ActiveHold, held};
use super::tidings::{between, written};
use crate::world::{CandidateNode, LabelState, Observed, ProviderTrouble};

/// How long a leader stands down for a newer term: longer than any lease. If it still leads
/// afterwards, the term is left over from a lease that was deleted.
const STANDS_DOWN: Duration = Duration::from_secs(60);

/// The input of a decision with what follows directly from it.
#[derive(Debug)]
pub(super) struct Assessment<'a> {
    pub(super) world: &'a Observed,
    /// Wall time, rounded to the precision of the status.
    pub(super) now: Timestamp,
    pub(super) held: Option<ActiveHold>,
    /// The nodes with gateway labels, and their state.
    pub(super) standings: Vec<(&'a CandidateNode, GatewayHealth)>,
    pub(super) election: Election<'a>,
    pub(super) elsewhere: Option<ForeignAssignment>,
    /// Why the floating IP's address is not allowed, if it is not.
    pub(super) refusal: Option<String>,
}

impl<'a> Assessment<'a> {
    /// Assesses `world`.
    pub(super) fn of(world: &'a Observed) -> Self {
        let now = written(world.now);
        let labelled = world.nodes.iter().filter(|n| n.labels != LabelState::None);
        let standings: Vec<_> = labelled
            .map(|node| (node, standing(world, now, node)))
            .collect();
        let seen = world.cloud.seen.as_ref();
        let refusal = seen.and_then(|seen| allowlist::refusal(&world.spec.allowlist, seen.ip));
        Self {
            election: elect(world, now, &standings),
            standings,
            held: held(world, now),
            elsewhere: elsewhere(world, now),
            refusal,
            now,
            world,
        }
    }

    /// Whether nothing may be written, neither to the provider nor to a node.
    pub(super) fn frozen(&self) -> bool {
        let unwatched = self.world.unwatched.is_some();
        self.held.is_some() || self.refusal.is_some() || unwatched || self.outranked()
    }

    /// Whether a newer leader has acted on the floating IP.
    pub(super) fn outranked(&self) -> bool {
        self.newer_term() && !self.stood_down()
    }

    /// Whether the floating IP has the term of a newer leader.
    pub(super) fn newer_term(&self) -> bool {
        let seen = self.world.cloud.seen.as_ref();
        let newer = seen.is_some_and(|seen| seen.term > self.world.term);
        newer && self.world.term > 0
    }

    /// Whether overwriting the present term with this leader's has failed.
    pub(super) fn claim_failed(&self) -> bool {
        let cloud = &self.world.cloud;
        let there = cloud.seen.as_ref().map(|seen| seen.term);
        there.is_some() && cloud.claim.as_ref().map(|failed| failed.over) == there
    }

    /// Whether this leader has reported long enough that it stands down. If the clock was set back
    /// since, the time it has led decides.
    fn stood_down(&self) -> bool {
        if self.claim_failed() {
            // A write was attempted, so this leader had stood down before; its conditions have
            // changed since.
            return true;
        }
        let mut conditions = self.world.status.conditions.iter();
        conditions.any(|condition| {
            let since = condition.last_transition_time.0;
            let stood = if since > self.now {
                self.world.led
            } else {
                between(since, self.now)
            };
            condition.reason == reasons::NEWER_LEADER && stood >= STANDS_DOWN
        })
    }

    /// Whether the last read of the floating IP is too old to rely on.
    pub(super) fn stale(&self) -> bool {
        let most = (self.world.cloud.resync * 5).max(Duration::from_secs(300));
        let seen = self.world.cloud.seen.as_ref();
        seen.is_none_or(|seen| self.world.uptime.saturating_sub(seen.at) > most)
    }

    /// Whether the rate limit is the only obstacle.
    pub(super) fn throttled(&self) -> bool {
        self.world.cloud.trouble == Some(ProviderTrouble::Throttled)
    }

    /// Whether the gateway is left alone because of a grace period or the move limit.
    pub(super) const fn waiting(&self) -> bool {
        matches!(
            self.election,
            Election::Grace { .. } | Election::Capped { .. }
        )
    }
}

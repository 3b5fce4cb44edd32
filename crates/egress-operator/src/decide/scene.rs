//! A world, and what follows from it at once: what every other part of a decision looks at.

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

/// How long a leader stands down before a newer leader's term: longer than any lease. One that still
/// leads then is the newest, and the term a leftover of a lease that was deleted.
const STANDS_DOWN: Duration = Duration::from_secs(60);

/// A world, and what follows from it at once.
#[derive(Debug)]
pub(super) struct Assessment<'a> {
    pub(super) world: &'a Observed,
    /// Wall time, as fine as it is written.
    pub(super) now: Timestamp,
    pub(super) held: Option<ActiveHold>,
    /// The nodes with gateway labels, and how they stand.
    pub(super) standings: Vec<(&'a CandidateNode, GatewayHealth)>,
    pub(super) election: Election<'a>,
    pub(super) elsewhere: Option<ForeignAssignment>,
    /// Why the floating IP's address may not be used, if it may not.
    pub(super) refusal: Option<String>,
}

impl<'a> Assessment<'a> {
    /// `world`, judged.
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

    /// Whether nothing may be written, neither at the provider nor on a node.
    pub(super) fn frozen(&self) -> bool {
        let unwatched = self.world.unwatched.is_some();
        self.held.is_some() || self.refusal.is_some() || unwatched || self.outranked()
    }

    /// Whether a newer leader has acted on the floating IP.
    pub(super) fn outranked(&self) -> bool {
        self.newer_term() && !self.stood_down()
    }

    /// Whether the floating IP carries the term of a newer leader.
    pub(super) fn newer_term(&self) -> bool {
        let seen = self.world.cloud.seen.as_ref();
        let newer = seen.is_some_and(|seen| seen.term > self.world.term);
        newer && self.world.term > 0
    }

    /// Whether writing this leader's term over the one that is there has failed.
    pub(super) fn claim_failed(&self) -> bool {
        let cloud = &self.world.cloud;
        let there = cloud.seen.as_ref().map(|seen| seen.term);
        there.is_some() && cloud.claim.as_ref().map(|failed| failed.over) == there
    }

    /// Whether this leader has said long enough that it stands down: only one that still leads can
    /// have written that. Where the clock was set back since, how long it leads counts.
    fn stood_down(&self) -> bool {
        if self.claim_failed() {
            // It was tried, so this leader had stood down; what its conditions say now is something else.
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

    /// Whether what is known of the floating IP is too old to be believed.
    pub(super) fn stale(&self) -> bool {
        let most = (self.world.cloud.resync * 5).max(Duration::from_secs(300));
        let seen = self.world.cloud.seen.as_ref();
        seen.is_none_or(|seen| self.world.uptime.saturating_sub(seen.at) > most)
    }

    /// Whether the rate limit is all that stands in the way.
    pub(super) fn throttled(&self) -> bool {
        self.world.cloud.trouble == Some(ProviderTrouble::Throttled)
    }

    /// Whether a grace is running, or a cap: the gateway is left alone.
    pub(super) const fn waiting(&self) -> bool {
        matches!(
            self.election,
            Election::Grace { .. } | Election::Capped { .. }
        )
    }
}

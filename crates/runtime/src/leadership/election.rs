//! The election as a pure state machine. From its observations, and from when it made them on its own
//! monotonic clock, it decides whether to read, to claim or to wait.
//!
//! Two replicas never act at once: a holder acts for `renew` after it *sent* a renewal; another
//! claims only after the record has been unchanged for `duration` since it *saw* it, which was
//! after it was sent; and `duration` is longer. A claim replaces the version that it was based on, so a
//! renewal in between makes it fail. Neither wall time nor another replica's clock is used.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::key::ResourceVersion;
use crate::leadership::LeaseConfig;

/// How many reads in a row must be older than the known state before they are accepted.
const ROLLBACK_CONFIRMATIONS: u32 = 3;

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElectionStep {
    /// Read the lease.
    Read,
    /// Write this record over that version, or as a new object.
    Claim {
        record: LeaderElectionRecord,
        replaces: Option<ResourceVersion>,
    },
    /// Do nothing before this time, unless the lease changes.
    Wait(Duration),
}

/// The known state of the object.
#[derive(Clone, Debug, PartialEq)]
enum LeaseObservation {
    Unknown,
    Absent,
    Present {
        record: LeaderElectionRecord,
        version: ResourceVersion,
    },
}

/// A write of ours: when it was sent, and the timestamp that identifies it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SentClaim {
    at: Duration,
    stamp: Timestamp,
}

/// One candidate's state of the election. Times are since an arbitrary beginning.
#[derive(Debug)]
pub(crate) struct ElectionState {
    config: LeaseConfig,
    view: LeaseObservation,
    /// When the current record was first seen: another's hold ends its duration after this.
    observed_at: Duration,
    /// When the lease was last read or its watch delivered anything.
    last_response_at: Duration,
    /// The known state may be out of date: read before writing.
    stale: bool,
    /// No other hold can have ended before this, even if its record is gone.
    others_hold_until: Duration,
    /// The claim with an unknown outcome.
    pending: Option<SentClaim>,
    /// The last claim that is known to have succeeded, while the record is ours.
    confirmed: Option<SentClaim>,
    /// This process claimed the lease, and its state has not become void since.
    has_claim: bool,
    /// Reads in a row that were older than the known state.
    rollbacks: u32,
    /// No call before the first time, and no claim before the second.
    call_at: Duration,
    claim_at: Duration,
    stamp: Timestamp,
}

impl ElectionState {
    pub(crate) fn new(config: LeaseConfig) -> Self {
        Self {
            config,
            view: LeaseObservation::Unknown,
            observed_at: Duration::ZERO,
            last_response_at: Duration::ZERO,
            stale: true,
            others_hold_until: Duration::ZERO,
            pending: None,
            confirmed: None,
            has_claim: false,
            rollbacks: 0,
            call_at: Duration::ZERO,
            claim_at: Duration::ZERO,
            stamp: Timestamp::MIN,
        }
    }

    /// Until when this replica may act, if it holds the lease.
    pub(crate) fn held_until(&self) -> Option<Duration> {
        self.confirmed.map(|sent| sent.at + self.config.renew_deadline)
    }

    /// How often the lease has changed hands.
    pub(crate) fn transitions(&self) -> i32 {
        match &self.view {
            LeaseObservation::Present { record, .. } => record.transitions,
            LeaseObservation::Unknown | LeaseObservation::Absent => 0,
        }
    }

    /// The holder in the record.
    pub(crate) fn holder(&self) -> Option<&str> {
        match &self.view {
            LeaseObservation::Present { record, .. } => record.holder.as_deref(),
            LeaseObservation::Unknown | LeaseObservation::Absent => None,
        }
    }

    /// The next step. A claim counts as sent at `now`.
    pub(crate) fn next(&mut self, now: Duration, wall: Timestamp) -> ElectionStep {
        if now < self.call_at {
            return ElectionStep::Wait(self.call_at);
        }
        if self.stale {
            return ElectionStep::Read;
        }
        let claim_at = self.next_claim_at().max(self.claim_at);
        if now >= claim_at {
            return self.claim(now, wall);
        }
        // No renewal or event for too long: find out why with a read.
        let read_at = self.last_response_at + self.config.retry_period + self.config.retry_period / 4;
        if self.is_own_record() {
            ElectionStep::Wait(claim_at)
        } else if now >= read_at {
            ElectionStep::Read
        } else {
            ElectionStep::Wait(claim_at.min(read_at))
        }
    }

    /// When the lease may be claimed or renewed.
    fn next_claim_at(&self) -> Duration {
        match &self.view {
            LeaseObservation::Unknown | LeaseObservation::Absent => self.others_hold_until,
            LeaseObservation::Present { record, .. } if self.is_own_record() => match self.confirmed {
                Some(sent) if record.holder.is_some() => sent.at + self.config.retry_period,
                _ => Duration::ZERO,
            },
            LeaseObservation::Present { record, .. } => match record.holder {
                Some(_) => self.observed_at + record.duration,
                None => Duration::ZERO,
            },
        }
    }

    fn claim(&mut self, now: Duration, wall: Timestamp) -> ElectionStep {
        let stamp = self.next_stamp(wall);
        self.pending = Some(SentClaim { at: now, stamp });
        let ours = self.is_own_record();
        self.has_claim = true;
        let mut record = LeaderElectionRecord {
            holder: Some(self.config.identity.clone()),
            duration: self.config.lease_duration,
            transitions: 0,
            acquired: Some(stamp),
            renewed: Some(stamp),
        };
        let mut replaces = None;
        if let LeaseObservation::Present { record: old, version } = &self.view {
            replaces = Some(version.clone());
            record.transitions = old.transitions.saturating_add(i32::from(!ours));
            if ours {
                record.acquired = old.acquired;
            }
        }
        ElectionStep::Claim { record, replaces }
    }

    /// The wall time in the precision of a Lease, made unique, so that two claims of one replica can
    /// be distinguished even if its wall clock jumps.
    fn next_stamp(&mut self, wall: Timestamp) -> Timestamp {
        let micros = Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall);
        let after = self.stamp.checked_add(SignedDuration::from_micros(1));
        self.stamp = micros.max(after.unwrap_or(micros));
        self.stamp
    }

    /// Called before the lease is observed at `version` by a read. Reads are consistent, so repeated older
    /// versions mean a restore from a backup. The known state is then void, and the result is `true`. The former
    /// leader may still act for a while, regardless of the holder in the record, so a full duration must
    /// pass.
    pub(crate) fn check_rollback(&mut self, version: &ResourceVersion, now: Duration) -> bool {
        if !self.is_older(version) {
            return false;
        }
        self.rollbacks += 1;
        if self.rollbacks < ROLLBACK_CONFIRMATIONS {
            // An immediate retry against a lagging server would not help.
            self.call_at = now + self.config.retry_period;
            return false;
        }
        self.view = LeaseObservation::Unknown;
        self.pending = None;
        self.confirmed = None;
        self.has_claim = false;
        self.claim_at = now + self.config.lease_duration;
        true
    }

    fn is_older(&self, version: &ResourceVersion) -> bool {
        matches!(&self.view, LeaseObservation::Present { version: known, .. }
            if known != version && known.includes(version) == Some(true))
    }

    /// The lease was read, its watch delivered it, or it is the response to a claim. `false` if it is
    /// older than the known state.
    pub(crate) fn observe_record(
        &mut self,
        record: LeaderElectionRecord,
        version: ResourceVersion,
        now: Duration,
    ) -> bool {
        if self.is_older(&version) {
            return false;
        }
        self.last_response_at = now;
        self.stale = false;
        self.rollbacks = 0;
        let same = matches!(&self.view, LeaseObservation::Present { record: known, .. } if *known == record);
        if !same {
            self.observed_at = now;
        }
        let stamp = record.renewed;
        self.view = LeaseObservation::Present { record, version };
        self.resolve_claim(stamp, now);
        true
    }

    /// The current holder decides which of our claims remain.
    fn resolve_claim(&mut self, stamp: Option<Timestamp>, now: Duration) {
        if self.is_own_record() {
            let known = |sent: &SentClaim| Some(sent.stamp) == stamp;
            self.confirmed = self.pending.filter(known).or(self.confirmed.filter(known));
        } else {
            self.confirmed = None;
            if let LeaseObservation::Present { record, .. } = &self.view
                && record.holder.is_some()
            {
                self.others_hold_until = now + record.duration;
            }
        }
        self.pending = None;
    }

    /// The lease does not exist.
    pub(crate) fn observe_absence(&mut self, now: Duration) {
        self.view = LeaseObservation::Absent;
        self.last_response_at = now;
        self.stale = false;
        self.rollbacks = 0;
        self.pending = None;
        self.confirmed = None;
    }

    /// The claim failed because another write was first.
    pub(crate) fn record_claim_conflict(&mut self, now: Duration) {
        self.pending = None;
        self.stale = true;
        self.claim_at = now + self.config.retry_period / 8;
    }

    /// Whether this replica tried to hold it, and its record may be the result.
    pub(crate) fn has_claimed(&self) -> bool {
        self.has_claim
    }

    /// Whether the known state may be out of date.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// The watch ended: its changes have to be read.
    pub(crate) fn record_watch_end(&mut self, now: Duration) {
        self.record_failure(now);
    }

    /// A call failed. A claim may still have succeeded.
    pub(crate) fn record_failure(&mut self, now: Duration) {
        self.stale = true;
        self.call_at = now + self.config.retry_period;
    }

    /// Releases the lease: this replica may not act any more. Returns the record to write so that another
    /// replica need not wait, if the lease is ours.
    pub(crate) fn release(&mut self, wall: Timestamp) -> Option<(LeaderElectionRecord, ResourceVersion)> {
        self.confirmed = None;
        let ours = self.is_own_record();
        let stamp = self.next_stamp(wall);
        let LeaseObservation::Present { record, version } = &self.view else {
            return None;
        };
        let released = LeaderElectionRecord {
            holder: None,
            duration: Duration::from_secs(1),
            transitions: record.transitions,
            acquired: Some(stamp),
            renewed: Some(stamp),
        };
        ours.then(|| (released, version.clone()))
    }

    /// Whether the record has this replica as its holder and this process wrote it. One that a former process
    /// of the same name left has to expire like any other.
    fn is_own_record(&self) -> bool {
        self.has_claimed() && self.holder() == Some(&*self.config.identity)
    }
}

/// Who holds the lease, and since when by that holder's own clock.
///
/// The times are for people: no decision uses another machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderElectionRecord {
    /// `None` after a release.
    pub(crate) holder: Option<String>,
    pub(crate) duration: Duration,
    pub(crate) transitions: i32,
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
}

impl LeaderElectionRecord {
    /// Reads the record of a Lease of any writer.
    pub(crate) fn from_lease(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        Self {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            duration: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
        }
    }

    /// Writes the record into a Lease and keeps its other fields.
    pub(crate) fn write_to(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.holder.clone().unwrap_or_default());
        let seconds = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
        spec.lease_duration_seconds = Some(seconds);
        spec.lease_transitions = Some(self.transitions);
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
    }
}

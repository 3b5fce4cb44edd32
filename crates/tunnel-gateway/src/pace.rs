//! When this replica publishes its report: soon after a change that other components wait for, coalescing
//! changes that come together, and otherwise with the heartbeat. Pure: time is passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb::version::ResourceVersion;
use aplomb_api::tunnel::{AppliedVersions, GatewayReplicaSpec};
use tokio::time::Instant;

use crate::memory::applied_of;

/// How long to wait for further changes: the children of a tunnel are written one after another.
const QUIET: Duration = Duration::from_millis(25);
/// Maximum delay of a change while waiting for others.
const LONGEST: Duration = Duration::from_millis(100);
/// At most five reports per second.
const SPACING: Duration = Duration::from_millis(200);
/// Backoff after failed writes: initial and maximum.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The last report, and the changes that wait for the next one.
#[derive(Debug, Default)]
pub(crate) struct PublishSchedule {
    said: Option<(Instant, GatewayReplicaSpec)>,
    waiting: Option<Waiting>,
    demands: BTreeMap<(&'static str, ObjectKey), ResourceVersion>,
    failed: Option<(Instant, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    first: Instant,
    last: Instant,
}

impl PublishSchedule {
    /// Records that a relevant object changed, so that a writer may wait for its acknowledgment.
    pub(crate) fn demand(
        &mut self,
        kind: &'static str,
        key: ObjectKey,
        version: ResourceVersion,
        now: Instant,
    ) {
        self.demands.insert((kind, key), version);
        self.wait(now);
    }

    fn wait(&mut self, now: Instant) {
        let waiting = self.waiting.get_or_insert(Waiting {
            first: now,
            last: now,
        });
        waiting.last = now;
    }

    /// When `spec` is to be published. `exists` tells whether an object still exists: a deleted one needs no
    /// acknowledgment.
    pub(crate) fn due(
        &mut self,
        spec: &GatewayReplicaSpec,
        exists: impl Fn(&str, &ObjectKey) -> bool,
        now: Instant,
    ) -> Instant {
        let due = self.wish(spec, exists, now);
        let Some((at, times)) = self.failed else {
            return due;
        };
        let pause = PAUSES.0.saturating_mul(1 << times.min(8)).min(PAUSES.1);
        due.max(at + pause)
    }

    fn wish(
        &mut self,
        spec: &GatewayReplicaSpec,
        exists: impl Fn(&str, &ObjectKey) -> bool,
        now: Instant,
    ) -> Instant {
        let Some((at, said)) = &self.said else {
            return now;
        };
        let (at, heartbeat) = (*at, *at + heartbeat(spec));
        self.demands.retain(|(kind, key), version| {
            exists(kind, key) && !passed(&said.applied, kind, version)
        });
        let demanded = self.demands.iter();
        let mut news = demanded.map(|((kind, _), version)| passed(&spec.applied, kind, version));
        if news.any(|helps| helps) || differs(said, spec) {
            self.waiting.get_or_insert(Waiting {
                first: now,
                last: now,
            });
        } else {
            self.waiting = None;
        }
        let Some(waiting) = self.waiting else {
            return heartbeat;
        };
        let quiet = (waiting.last + QUIET).min(waiting.first + LONGEST);
        quiet.max(at + SPACING).min(heartbeat)
    }

    /// Records that a report was published.
    pub(crate) fn published(&mut self, spec: GatewayReplicaSpec, now: Instant) {
        self.said = Some((now, spec));
        self.waiting = None;
        self.failed = None;
    }

    /// Whether no report was published yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.said.is_none()
    }

    /// Whether a published report acknowledges this version of a kind.
    pub(crate) fn has_said(&self, kind: &str, version: &ResourceVersion) -> bool {
        let said = self.said.as_ref();
        said.is_some_and(|(_, said)| passed(&said.applied, kind, version))
    }

    /// Drops the last report because its state on the server is unknown.
    pub(crate) fn forgotten(&mut self) {
        self.said = None;
    }

    /// Records that publishing failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        let times = self.failed.map_or(0, |(_, times)| times + 1);
        self.failed = Some((now, times));
    }
}

/// Interval of heartbeats.
fn heartbeat(spec: &GatewayReplicaSpec) -> Duration {
    let lease = u64::try_from(spec.lease_duration_seconds).unwrap_or(1);
    Duration::from_secs(lease.max(1)) / 3
}

/// Whether a report includes a version. One that cannot be compared counts as included.
fn passed(applied: &AppliedVersions, kind: &str, version: &ResourceVersion) -> bool {
    let applied = ResourceVersion::parse(applied_of(applied, kind));
    applied.includes(version).unwrap_or(true)
}

/// Whether a difference must be published at once, regardless of versions.
fn differs(said: &GatewayReplicaSpec, spec: &GatewayReplicaSpec) -> bool {
    said.lost != spec.lost
        || said.more_lost != spec.more_lost
        || said.quarantined != spec.quarantined
        || said.more_quarantined != spec.more_quarantined
        || said.incomplete != spec.incomplete
        || said.relays != spec.relays
        || said.listen != spec.listen
        || said.listen_tls != spec.listen_tls
        || said.endpoint_id != spec.endpoint_id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(gateways: &str) -> GatewayReplicaSpec {
        GatewayReplicaSpec {
            lease_duration_seconds: 15,
            applied: AppliedVersions {
                gateways: gateways.to_owned(),
                ..AppliedVersions::default()
            },
            ..GatewayReplicaSpec::default()
        }
    }

    fn app() -> ObjectKey {
        ObjectKey::new(Some("a"), "app")
    }

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::Number(number)
    }

    /// A schedule whose last report acknowledged version 5, a minute ago.
    fn settled() -> (PublishSchedule, Instant) {
        let (mut pace, now) = (PublishSchedule::default(), Instant::now());
        pace.published(spec("5"), now);
        (pace, now + Duration::from_secs(1))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_word_is_said_at_once_and_then_every_third_of_the_lease() {
        let (mut pace, now) = (PublishSchedule::default(), Instant::now());
        assert_eq!(pace.due(&spec("5"), |_, _| true, now), now);
        pace.published(spec("5"), now);
        let heartbeat = now + Duration::from_secs(5);
        assert_eq!(pace.due(&spec("5"), |_, _| true, now), heartbeat);
        assert_eq!(
            pace.due(&spec("9"), |_, _| true, now),
            heartbeat,
            "an irrelevant change moved the version, and no writer waits for it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_come_together_are_said_together() {
        let (mut pace, now) = settled();
        for (number, at) in [(6, 0), (7, 10), (8, 20)] {
            pace.demand(
                "Gateway",
                app(),
                version(number),
                now + Duration::from_millis(at),
            );
        }
        let due = pace.due(&spec("8"), |_, _| true, now + Duration::from_millis(20));
        assert_eq!(due, now + Duration::from_millis(45));
        pace.published(spec("8"), due);
        let heartbeat = due + Duration::from_secs(5);
        assert_eq!(pace.due(&spec("8"), |_, _| true, due), heartbeat);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_changes_is_said_five_times_a_second() {
        let (mut pace, began) = settled();
        let (mut now, mut times) = (began, 0);
        let mut due = None;
        for number in 0..100 {
            now += Duration::from_millis(20);
            pace.demand("Gateway", app(), version(10 + number), now);
            let spec = spec(&(10 + number).to_string());
            if due.is_some_and(|due| due <= now) {
                pace.published(spec.clone(), now);
                times += 1;
            }
            due = Some(pace.due(&spec, |_, _| true, now));
        }
        assert!((8..=10).contains(&times), "{times} times in two seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_to_hear_of_what_is_gone() {
        let (mut pace, now) = settled();
        pace.demand("Gateway", app(), version(6), now);
        let due = pace.due(&spec("6"), |_, _| false, now);
        assert!(due > now + Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_back_is_not_said_early() {
        let (mut pace, now) = settled();
        pace.demand("Gateway", app(), version(7), now);
        let due = pace.due(&spec("6"), |_, _| true, now);
        assert!(due > now + Duration::from_secs(3), "6 does not include 7");
        let due = pace.due(&spec("7"), |_, _| true, now);
        assert!(due < now + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_tried_again_with_growing_pauses() {
        let (mut pace, now) = (PublishSchedule::default(), Instant::now());
        for pause in [100, 200, 400, 800, 1000, 1000] {
            pace.failed(now);
            let due = pace.due(&spec("5"), |_, _| true, now);
            assert_eq!(due, now + Duration::from_millis(pause));
        }
    }
}

//! When this replica publishes its report: soon after a change that other components wait for, coalescing
//! changes that come together, and otherwise with the heartbeat. Pure: time is passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb::key::ResourceVersion;
use aplomb_api::tunnel::{AppliedVersions, GatewayReplicaSpec};
use tokio::time::Instant;

use crate::control::state::applied_version;

/// How long to wait for further changes: the children of a tunnel are written one after another.
const DEBOUNCE: Duration = Duration::from_millis(25);
/// Maximum delay of a change while waiting for others.
const MAX_DEBOUNCE: Duration = Duration::from_millis(100);
/// At most five reports per second.
const MIN_PUBLISH_INTERVAL: Duration = Duration::from_millis(200);
/// Backoff after failed writes: initial and maximum.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The last report, and the changes that wait for the next one.
#[derive(Debug, Default)]
pub(crate) struct PublishSchedule {
    published: Option<(Instant, GatewayReplicaSpec)>,
    pending: Option<PendingPublish>,
    requests: BTreeMap<(&'static str, ObjectKey), ResourceVersion>,
    failed: Option<(Instant, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct PendingPublish {
    first: Instant,
    last: Instant,
}

impl PublishSchedule {
    /// Records that a relevant object changed, so that a writer may wait for its acknowledgment.
    pub(crate) fn request_publish(
        &mut self,
        kind: &'static str,
        key: ObjectKey,
        version: ResourceVersion,
        now: Instant,
    ) {
        self.requests.insert((kind, key), version);
        let waiting = self.pending.get_or_insert(PendingPublish { first: now, last: now });
        waiting.last = now;
    }

    /// When `spec` is to be published. `exists` tells whether an object still exists: a deleted one needs no
    /// acknowledgment.
    pub(crate) fn next_publish_at(
        &mut self,
        spec: &GatewayReplicaSpec,
        exists: impl Fn(&str, &ObjectKey) -> bool,
        now: Instant,
    ) -> Instant {
        let due = self.publish_at(spec, exists, now);
        let Some((at, times)) = self.failed else {
            return due;
        };
        let pause = RETRY_DELAYS.0.saturating_mul(1 << times.min(8)).min(RETRY_DELAYS.1);
        due.max(at + pause)
    }

    fn publish_at(
        &mut self,
        spec: &GatewayReplicaSpec,
        exists: impl Fn(&str, &ObjectKey) -> bool,
        now: Instant,
    ) -> Instant {
        let Some((at, said)) = &self.published else {
            return now;
        };
        let (at, heartbeat) = (*at, *at + heartbeat_interval(spec));
        self.requests
            .retain(|(kind, key), version| exists(kind, key) && !is_included(&said.applied, kind, version));
        let demanded = self.requests.iter();
        let mut news = demanded.map(|((kind, _), version)| is_included(&spec.applied, kind, version));
        if news.any(|helps| helps) || is_different(said, spec) {
            self.pending.get_or_insert(PendingPublish { first: now, last: now });
        } else {
            self.pending = None;
        }
        let Some(waiting) = self.pending else {
            return heartbeat;
        };
        let quiet = (waiting.last + DEBOUNCE).min(waiting.first + MAX_DEBOUNCE);
        quiet.max(at + MIN_PUBLISH_INTERVAL).min(heartbeat)
    }

    pub(crate) fn record_published(&mut self, spec: GatewayReplicaSpec, now: Instant) {
        self.published = Some((now, spec));
        self.pending = None;
        self.failed = None;
    }

    /// Whether no report was published yet.
    pub(crate) fn is_unpublished(&self) -> bool {
        self.published.is_none()
    }

    /// Whether a published report acknowledges this version of a kind.
    pub(crate) fn has_published(&self, kind: &str, version: &ResourceVersion) -> bool {
        let said = self.published.as_ref();
        said.is_some_and(|(_, said)| is_included(&said.applied, kind, version))
    }

    /// Drops the last report because its state on the server is unknown.
    pub(crate) fn reset_published(&mut self) {
        self.published = None;
    }

    pub(crate) fn record_failure(&mut self, now: Instant) {
        let times = self.failed.map_or(0, |(_, times)| times + 1);
        self.failed = Some((now, times));
    }
}

fn heartbeat_interval(spec: &GatewayReplicaSpec) -> Duration {
    let lease = u64::try_from(spec.lease_duration_seconds).unwrap_or(1);
    Duration::from_secs(lease.max(1)) / 3
}

/// Whether a report includes a version. One that cannot be compared counts as included.
fn is_included(applied: &AppliedVersions, kind: &str, version: &ResourceVersion) -> bool {
    let applied = ResourceVersion::parse(applied_version(applied, kind));
    applied.includes(version).unwrap_or(true)
}

/// Whether a difference must be published at once, regardless of versions.
fn is_different(said: &GatewayReplicaSpec, spec: &GatewayReplicaSpec) -> bool {
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
    fn published_schedule() -> (PublishSchedule, Instant) {
        let (mut pace, now) = (PublishSchedule::default(), Instant::now());
        pace.record_published(spec("5"), now);
        (pace, now + Duration::from_secs(1))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_publish_is_immediate_and_then_every_third_of_the_lease() {
        let (mut pace, now) = (PublishSchedule::default(), Instant::now());
        assert_eq!(pace.next_publish_at(&spec("5"), |_, _| true, now), now);
        pace.record_published(spec("5"), now);
        let heartbeat = now + Duration::from_secs(5);
        assert_eq!(pace.next_publish_at(&spec("5"), |_, _| true, now), heartbeat);
        assert_eq!(
            pace.next_publish_at(&spec("9"), |_, _| true, now),
            heartbeat,
            "an irrelevant change moved the version, and no writer waits for it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_arrive_together_are_published_together() {
        let (mut pace, now) = published_schedule();
        for (number, at) in [(6, 0), (7, 10), (8, 20)] {
            pace.request_publish("Gateway", app(), version(number), now + Duration::from_millis(at));
        }
        let due = pace.next_publish_at(&spec("8"), |_, _| true, now + Duration::from_millis(20));
        assert_eq!(due, now + Duration::from_millis(45));
        pace.record_published(spec("8"), due);
        let heartbeat = due + Duration::from_secs(5);
        assert_eq!(pace.next_publish_at(&spec("8"), |_, _| true, due), heartbeat);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_changes_is_published_five_times_a_second() {
        let (mut pace, began) = published_schedule();
        let (mut now, mut times) = (began, 0);
        let mut due = None;
        for number in 0..100 {
            now += Duration::from_millis(20);
            pace.request_publish("Gateway", app(), version(10 + number), now);
            let spec = spec(&(10 + number).to_string());
            if due.is_some_and(|due| due <= now) {
                pace.record_published(spec.clone(), now);
                times += 1;
            }
            due = Some(pace.next_publish_at(&spec, |_, _| true, now));
        }
        assert!((8..=10).contains(&times), "{times} times in two seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_objects_request_no_publish() {
        let (mut pace, now) = published_schedule();
        pace.request_publish("Gateway", app(), version(6), now);
        let due = pace.next_publish_at(&spec("6"), |_, _| false, now);
        assert!(due > now + Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_change_is_not_published_early() {
        let (mut pace, now) = published_schedule();
        pace.request_publish("Gateway", app(), version(7), now);
        let due = pace.next_publish_at(&spec("6"), |_, _| true, now);
        assert!(due > now + Duration::from_secs(3), "6 does not include 7");
        let due = pace.next_publish_at(&spec("7"), |_, _| true, now);
        assert!(due < now + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_with_growing_delays() {
        let (mut pace, now) = (PublishSchedule::default(), Instant::now());
        for pause in [100, 200, 400, 800, 1000, 1000] {
            pace.record_failure(now);
            let due = pace.next_publish_at(&spec("5"), |_, _| true, now);
            assert_eq!(due, now + Duration::from_millis(pause));
        }
    }
}

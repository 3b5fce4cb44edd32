//! Two replicas: only one acts, whatever stops the other, and for as long as it stops.
//!
//! A worker copies a value from the ConfigMap `spec` to the ConfigMap `child`, and looks again every
//! second. Each scenario is also run with the protection it shows switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aplomb::clock::Clock;
use aplomb::fence::Fence;
use aplomb::lease::{Config, Lease};
use aplomb::telemetry::Telemetry;
use aplomb_controlplane::{ControlPlane, Options};
use aplomb_sim::world::World;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::replica::{Process, Turnstile};

const RESYNC: Duration = Duration::from_secs(1);

/// A server and the times to use on it: client-go's in virtual time, shorter ones in real time.
#[derive(Clone)]
struct Place {
    client: Client,
    lease: fn(&str) -> Config,
}

impl Place {
    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    async fn set(&self, name: &str, value: &str) {
        put(&self.maps(), name, value).await.unwrap();
    }

    async fn child(&self) -> Option<String> {
        value(self.maps().get_opt("child").await.unwrap())
    }

    /// Waits for the child to have a value; how long it took.
    async fn settles(&self, wanted: &str) -> Duration {
        let began = Instant::now();
        while self.child().await.as_deref() != Some(wanted) {
            assert!(began.elapsed() < 4 * self.duration(), "not {wanted}");
            sleep(Duration::from_millis(50)).await;
        }
        began.elapsed()
    }

    fn duration(&self) -> Duration {
        (self.lease)("any").duration
    }
}

fn value(map: Option<ConfigMap>) -> Option<String> {
    map?.data?.remove("value")
}

async fn put(maps: &Api<ConfigMap>, name: &str, value: &str) -> kube::Result<ConfigMap> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "value": value },
    });
    let params = PatchParams::apply("test").force();
    maps.patch(name, &params, &Patch::Apply(map)).await
}

struct Replica {
    process: Process,
    turnstile: Turnstile,
    lease: Lease,
    stale: Arc<AtomicU64>,
}

impl Replica {
    /// With `fenced` the worker acts behind the lease's fence; without, behind none.
    fn start(place: &Place, name: &str, fenced: bool) -> Self {
        Self::with_clock(place, name, fenced, Clock::system())
    }

    fn with_clock(place: &Place, name: &str, fenced: bool, clock: Clock) -> Self {
        let (process, turnstile) = (Process::default(), Turnstile::default());
        let client = turnstile.client(&place.client);
        let fence = Fence::shut();
        let telemetry = Telemetry::default();
        let config = (place.lease)(name);
        let lease = Lease::new(client.clone(), config, fence.clone(), telemetry, clock).unwrap();
        let stale = Arc::new(AtomicU64::new(0));
        let worker = Worker {
            maps: Api::default_namespaced(client),
            fence: if fenced { fence } else { Fence::open() },
            leading: lease.leading(),
            stale: stale.clone(),
        };
        process.spawn(worker.run());
        process.spawn(lease.run(CancellationToken::new()));
        Self {
            process,
            turnstile,
            lease,
            stale,
        }
    }

    async fn leads(&self) {
        let mut leading = self.lease.leading();
        leading.wait_for(|leading| *leading).await.unwrap();
    }

    /// Stops it in front of a request, for as long as the lease takes twice, while the value that
    /// is wanted changes and `other` takes over.
    async fn sleep_before(&self, place: &Place, method: Method, other: &Self) {
        self.turnstile.hold(method, "/child");
        place.set("spec", "2").await;
        self.turnstile.reached().await;
        self.process.freeze();
        place.set("spec", "3").await;
        sleep(2 * place.duration()).await;
        assert!(*other.lease.leading().borrow(), "the other has taken over");
        assert_eq!(place.child().await.as_deref(), Some("3"));
        self.turnstile.open();
        self.process.thaw();
    }
}

struct Worker {
    maps: Api<ConfigMap>,
    fence: Fence,
    leading: tokio::sync::watch::Receiver<bool>,
    stale: Arc<AtomicU64>,
}

impl Worker {
    async fn run(mut self) {
        loop {
            // A warm standby: it does nothing until it leads.
            if self.leading.wait_for(|leading| *leading).await.is_err() {
                return;
            }
            // What fails is looked at again in a second, as everything is.
            drop(self.pass().await);
            sleep(RESYNC).await;
        }
    }

    async fn pass(&self) -> aplomb::Result<()> {
        let wanted = value(Some(self.maps.get("spec").await?));
        let found = value(self.maps.get_opt("child").await?);
        if found == wanted {
            return Ok(());
        }
        let guard = self.fence.guard()?;
        put(&self.maps, "child", wanted.as_deref().unwrap_or_default()).await?;
        if !guard.still_holds() {
            self.stale.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The first leads, and the child is as the spec says.
async fn two_replicas(place: &Place, fenced: bool) -> (Replica, Replica) {
    place.set("spec", "1").await;
    let first = Replica::start(place, "first", fenced);
    first.leads().await;
    let second = Replica::start(place, "second", fenced);
    place.settles("1").await;
    (first, second)
}

/// How many writes of a leader land that slept, for twice the lease, before it checked the lease.
async fn sleeps_before_the_check(place: Place, fenced: bool) -> usize {
    let (first, second) = two_replicas(&place, fenced).await;
    let before = first.turnstile.writes("/child");
    first.sleep_before(&place, Method::GET, &second).await;
    sleep(place.duration()).await;
    first.turnstile.writes("/child") - before
}

struct Stale {
    landed: usize,
    counted: u64,
    corrected_after: Duration,
}

/// What becomes of a leader's write that slept, for twice the lease, after it checked the lease.
async fn sleeps_after_the_check(place: Place, fenced: bool) -> Stale {
    let (first, second) = two_replicas(&place, fenced).await;
    let before = first.turnstile.writes("/child");
    first.sleep_before(&place, Method::PATCH, &second).await;
    while first.turnstile.writes("/child") == before {
        sleep(Duration::from_millis(1)).await;
    }
    let corrected_after = place.settles("3").await;
    sleep(place.duration()).await;
    assert_eq!(place.child().await.as_deref(), Some("3"), "and it stays");
    Stale {
        landed: first.turnstile.writes("/child") - before,
        counted: first.stale.load(Ordering::Relaxed),
        corrected_after,
    }
}

/// How long nobody leads after the leader was stopped, gracefully or not.
async fn hand_over(place: Place, graceful: bool) -> Duration {
    let (first, second) = two_replicas(&place, true).await;
    // Not in step with the renewals.
    sleep(place.duration() * 7 / 5).await;
    let stopped = Instant::now();
    if graceful {
        first.lease.release().await;
    }
    drop(first);
    second.leads().await;
    let took = stopped.elapsed();
    place.set("spec", "2").await;
    place.settles("2").await;
    took
}

fn on_box<T, F>(scenario: impl FnOnce(Place) -> F + Send + 'static) -> T
where
    F: Future<Output = T>,
    T: Send + 'static,
{
    let world = World::new(11).interpose(aplomb_vtime::install);
    let run = world.run(|cluster| {
        let client = cluster.plain_client("replicas");
        let lease = |name: &str| Config::new("default", "demo", name);
        scenario(Place { client, lease })
    });
    run.value
}

#[test]
fn a_leader_that_slept_through_its_lease_changes_nothing() {
    assert_eq!(on_box(|place| sleeps_before_the_check(place, true)), 0);
    let off = on_box(|place| sleeps_before_the_check(place, false));
    assert_ne!(off, 0, "without the fence it does");
}

#[test]
fn an_effect_that_slept_past_its_check_is_counted_and_corrected() {
    let stale = on_box(|place| sleeps_after_the_check(place, true));
    assert_eq!((stale.landed, stale.counted), (1, 1));
    assert!(
        stale.corrected_after <= RESYNC,
        "{:?}",
        stale.corrected_after
    );
    let off = on_box(|place| sleeps_after_the_check(place, false));
    assert_eq!(off.counted, 0, "without the fence nobody knows");
}

#[test]
fn a_graceful_stop_hands_over_within_two_seconds() {
    let graceful = on_box(|place| hand_over(place, true));
    assert!(graceful < Duration::from_secs(2), "{graceful:?}");
    let crash = on_box(|place| hand_over(place, false));
    assert!(
        crash > Duration::from_secs(10),
        "without a release: {crash:?}"
    );
    assert!(crash < Duration::from_secs(16), "{crash:?}");
}

#[test]
fn clocks_that_are_wrong_decide_nothing() {
    on_box(|place| async move {
        place.set("spec", "1").await;
        let skewed = |seconds: i64| {
            let begun = Instant::now();
            let wrong = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_767_225_600 + seconds);
            Clock::new(move || wrong + SignedDuration::try_from(begun.elapsed()).unwrap())
        };
        let first = Replica::with_clock(&place, "first", true, skewed(-30));
        first.leads().await;
        let second = Replica::with_clock(&place, "second", true, skewed(30));
        // Its renewals look half a minute old to the other, which is twice the lease.
        sleep(Duration::from_secs(120)).await;
        assert!(*first.lease.leading().borrow());
        assert!(!*second.lease.leading().borrow());
        assert_eq!(second.lease.status().holder.as_deref(), Some("first"));
        assert_eq!(second.lease.status().transitions, 0);
    });
}

#[tokio::test]
#[ignore = "needs the real control plane"]
async fn real_leaders_stop_and_hand_over() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.client().await.unwrap();
    let lease = |name: &str| Config {
        duration: Duration::from_secs(3),
        renew: Duration::from_secs(2),
        retry: Duration::from_millis(400),
        ..Config::new("default", "demo", name)
    };
    let place = Place { client, lease };
    assert_eq!(sleeps_before_the_check(place.clone(), true).await, 0);
    let stale = sleeps_after_the_check(place.clone(), true).await;
    assert_eq!((stale.landed, stale.counted), (1, 1));
    assert!(
        stale.corrected_after <= 2 * RESYNC,
        "{:?}",
        stale.corrected_after
    );
    let graceful = hand_over(place.clone(), true).await;
    assert!(graceful < Duration::from_secs(2), "{graceful:?}");
}

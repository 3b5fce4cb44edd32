//! Promise: of two replicas only one acts, regardless of what stops the other, and for how long.
//!
//! The operator copies the title of a page to a ConfigMap. Each scenario is also run with the
//! protection under test switched off.

use std::sync::Arc;
use std::time::Duration;

use aplomb::leadership::LeaseConfig;
use aplomb::telemetry::Telemetry;
use aplomb::{Action, Context, Controller, Engine, Predicate};
use aplomb_apiserver::call::Verb;
use aplomb_simulation::faults::{Fault, Match, Rule};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, REAL_TIME_SLACK, on_box, on_real, page, seconds, time_slack, wait_until};
use crate::page::Page;
use crate::replica::{Process, Turnstile};

/// The options of a scenario.
#[derive(Clone, Copy)]
struct LeaderOptions {
    /// Whether there is a lease, and so a fence.
    elects: bool,
    /// Whether a change of the child is seen.
    watches: bool,
    resync: Option<Duration>,
    /// client-go's times in virtual time, a fifth of them in real time.
    lease: fn(&str) -> LeaseConfig,
}

const DEFAULT_OPTIONS: LeaderOptions = LeaderOptions {
    elects: true,
    watches: true,
    resync: None,
    lease: |name| LeaseConfig::new("default", "copy", name),
};

const REAL_TIME_OPTIONS: LeaderOptions = LeaderOptions {
    lease: |name| LeaseConfig {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(400),
        ..LeaseConfig::new("default", "copy", name)
    },
    ..DEFAULT_OPTIONS
};

impl LeaderOptions {
    fn lease_duration(&self) -> Duration {
        (self.lease)("any").lease_duration
    }
}

/// Steps of a run: the reconcile decides, the writer checks the lease, the request is sent.
const BEFORE_THE_CHECK: (&str, &str) = ("reconcile", "old");
const AFTER_THE_CHECK: (&str, &str) = ("PATCH", "/configmaps/front");

struct Replica {
    process: Process,
    turnstile: Turnstile,
    telemetry: Telemetry,
    shutdown: CancellationToken,
}

impl Replica {
    fn start(lab: &Lab, name: &str, how: LeaderOptions) -> Self {
        let (process, turnstile) = (Process::default(), Turnstile::default());
        let (telemetry, shutdown) = (Telemetry::default(), CancellationToken::new());
        let steps = turnstile.clone();
        let mut controller = Controller::new("copy", move |page, cx| copy(page, cx, steps.clone()));
        if how.watches {
            controller = controller.owns::<ConfigMap>(Predicate::always());
        }
        controller = controller.configure(|options| {
            options.resync = how.resync;
            // Longer than any sleep here: late writes must be stopped by the fence.
            options.deadline = seconds(300);
        });
        let client = turnstile.client(&lab.client(name).0);
        let engine = Engine::new("copy.example.com", client).controller(controller);
        let engine = engine.configure(|settings| {
            settings.lease = how.elects.then(|| (how.lease)(name));
            settings.tasks = Some(process.tasks());
            settings.telemetry = telemetry.clone();
        });
        let stopped = shutdown.clone();
        process.spawn(async move {
            engine.run(stopped.cancelled_owned()).await.unwrap();
        });
        Self {
            process,
            turnstile,
            telemetry,
            shutdown,
        }
    }
}

async fn copy(page: Arc<Page>, cx: Context<Page>, steps: Turnstile) -> aplomb::Result<Action> {
    let title = page.spec.title.clone();
    steps.step(&format!("reconcile {title}")).await;
    let metadata = ObjectMeta {
        name: page.metadata.name.clone(),
        namespace: page.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    cx.apply(ConfigMap {
        metadata,
        data: Some([("title".to_owned(), title)].into()),
        ..ConfigMap::default()
    })
    .await?;
    Ok(Action::Done)
}

/// Two replicas, the first of them leading, and a page they have copied.
struct ReplicaPair {
    pages: Api<Page>,
    maps: Api<ConfigMap>,
    first: Replica,
    second: Replica,
    options: LeaderOptions,
}

impl ReplicaPair {
    async fn start(lab: &Lab, how: LeaderOptions) -> Self {
        let pages = page(lab).await;
        let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
        let first = Replica::start(lab, "first", how);
        let copied = || async { title(&maps).await.as_deref() == Some("a title") };
        wait_until(seconds(20), "the first copies", copied).await;
        let second = Replica::start(lab, "second", how);
        sleep(how.lease_duration()).await;
        Self {
            pages,
            maps,
            first,
            second,
            options: how,
        }
    }

    async fn edit(&self, title: &str) {
        let edit = Patch::Merge(json!({ "spec": { "title": title } }));
        let params = PatchParams::default();
        self.pages.patch("front", &params, &edit).await.unwrap();
    }

    async fn wait_for_title(&self, wanted: &str, limit: Duration) -> Duration {
        let shown = || async { title(&self.maps).await.as_deref() == Some(wanted) };
        wait_until(limit, wanted, shown).await
    }

    /// The first replica stops at a step of its work on an edit, for twice the duration of the lease. In
    /// the meantime there is another edit, which the second handles. Then the first continues.
    async fn freeze_first_at(&self, step: (&'static str, &'static str)) {
        self.freeze_first_for(step, 2 * self.options.lease_duration()).await;
        assert_eq!(title(&self.maps).await.as_deref(), Some("new"));
        self.thaw_first();
    }

    async fn freeze_first_for(&self, (start, end): (&'static str, &'static str), time: Duration) {
        self.first.turnstile.hold(start, end);
        // Without a lease both would work on this edit.
        self.second.process.freeze();
        self.edit("old").await;
        self.first.turnstile.reached().await;
        self.first.process.freeze();
        self.second.process.thaw();
        self.edit("new").await;
        sleep(time).await;
    }

    fn thaw_first(&self) {
        self.first.turnstile.open();
        self.first.process.thaw();
    }
}

async fn title(maps: &Api<ConfigMap>) -> Option<String> {
    let map = maps.get_opt("front").await.unwrap();
    map?.data?.remove("title")
}

/// How many writes are stored of a leader that slept before it checked the lease.
async fn sleeps_before_the_check(lab: Lab, how: LeaderOptions) -> usize {
    let pair = ReplicaPair::start(&lab, how).await;
    let before = pair.first.turnstile.writes();
    pair.freeze_first_at(BEFORE_THE_CHECK).await;
    sleep(2 * how.lease_duration()).await;
    pair.first.turnstile.writes() - before
}

#[derive(Debug)]
struct Stale {
    landed: usize,
    counted: u64,
    /// How long the old title was shown; `None` if it still is.
    shown: Option<Duration>,
}

/// The effect of a leader's write that slept after it checked the lease.
async fn sleeps_after_the_check(lab: Lab, how: LeaderOptions) -> Stale {
    let pair = ReplicaPair::start(&lab, how).await;
    let before = pair.first.turnstile.writes();
    pair.freeze_first_at(AFTER_THE_CHECK).await;
    let landed = || async { pair.first.turnstile.writes() > before };
    wait_until(seconds(5), "the write lands", landed).await;
    let since = Instant::now();
    let limit = how.resync.unwrap_or(how.lease_duration());
    let mut shown = None;
    while shown.is_none() && since.elapsed() < time_slack() * (limit + seconds(2)) {
        sleep(Duration::from_millis(10)).await;
        let corrected = title(&pair.maps).await.as_deref() == Some("new");
        shown = corrected.then(|| since.elapsed());
    }
    sleep(2 * how.lease_duration()).await;
    let stays = title(&pair.maps).await.as_deref() == Some("new");
    assert_eq!(stays, shown.is_some(), "the correction is stable");
    Stale {
        landed: pair.first.turnstile.writes() - before,
        counted: pair.first.telemetry.writes.stale_effects("apiserver"),
        shown,
    }
}

/// The wait of an edit that is made when the leader stops, gracefully or not.
async fn hand_over(lab: Lab, how: LeaderOptions, graceful: bool) -> Duration {
    let pair = ReplicaPair::start(&lab, how).await;
    // Not in step with the renewals.
    sleep(how.lease_duration() * 7 / 5).await;
    if graceful {
        pair.first.shutdown.cancel();
    } else {
        pair.first.process.freeze();
    }
    pair.edit("new").await;
    let took = pair.wait_for_title("new", 2 * how.lease_duration()).await;
    assert!(pair.second.turnstile.writes() > 0, "the second replica wrote it");
    took
}

#[test]
fn a_leader_that_slept_through_its_lease_changes_nothing() {
    let on = on_box(11, |lab| sleeps_before_the_check(lab, DEFAULT_OPTIONS));
    assert_eq!(on, 0);
    let unfenced = LeaderOptions {
        elects: false,
        ..DEFAULT_OPTIONS
    };
    let off = on_box(11, move |lab| sleeps_before_the_check(lab, unfenced));
    assert_ne!(off, 0, "without the fence the late write is stored");
}

#[test]
fn stale_effect_is_counted_and_corrected_when_observed() {
    let stale = on_box(11, |lab| sleeps_after_the_check(lab, DEFAULT_OPTIONS));
    assert_eq!((stale.landed, stale.counted), (1, 1));
    let shown = stale.shown.expect("it is corrected");
    assert!(shown < seconds(1), "{shown:?}");
    let unfenced = LeaderOptions {
        elects: false,
        ..DEFAULT_OPTIONS
    };
    let off = on_box(11, move |lab| sleeps_after_the_check(lab, unfenced));
    assert_eq!(off.counted, 0, "without the fence no stale effect is counted");
}

#[test]
fn unobserved_effect_is_corrected_within_one_resync() {
    let unseen = LeaderOptions {
        watches: false,
        resync: Some(seconds(60)),
        ..DEFAULT_OPTIONS
    };
    let stale = on_box(11, move |lab| sleeps_after_the_check(lab, unseen));
    assert_eq!((stale.landed, stale.counted), (1, 1));
    let shown = stale.shown.expect("it is corrected");
    assert!(shown <= seconds(60), "{shown:?}");
    let never = LeaderOptions { resync: None, ..unseen };
    let off = on_box(11, move |lab| sleeps_after_the_check(lab, never));
    assert_eq!(off.shown, None, "without a resync the old title stays");
}

#[test]
fn newest_edit_wins_after_any_freeze() {
    for time in [1, 5, 9, 10, 11, 14, 15, 16, 17, 25, 60] {
        for step in [BEFORE_THE_CHECK, AFTER_THE_CHECK] {
            on_box(time, move |lab| async move {
                let pair = ReplicaPair::start(&lab, DEFAULT_OPTIONS).await;
                pair.freeze_first_for(step, seconds(time)).await;
                pair.thaw_first();
                // Until the leader is known, and one full cycle.
                sleep(seconds(30)).await;
                let shown = title(&pair.maps).await;
                assert_eq!(shown.as_deref(), Some("new"), "after {time} s at {step:?}");
                let landed = pair.first.turnstile.writes() + pair.second.turnstile.writes();
                assert!(landed < 10, "{landed} writes for two edits");
            });
        }
    }
}

/// The holder of the lease while the first replica cannot read its inputs, and the second can.
async fn first_cannot_read(lab: Lab) -> Option<String> {
    let _pages = page(&lab).await;
    let refused = Rule::new(Fault::ServiceUnavailable);
    let lists = Match::any().verb(Verb::List).resource("configmaps");
    lab.client("first").1.add(refused.on(lists));
    let _first = Replica::start(&lab, "first", DEFAULT_OPTIONS);
    sleep(seconds(20)).await;
    let _second = Replica::start(&lab, "second", DEFAULT_OPTIONS);
    sleep(seconds(20)).await;
    let leases: Api<Lease> = Api::namespaced(lab.user(), "default");
    leases.get("copy").await.unwrap().spec?.holder_identity
}

#[test]
fn a_replica_that_cannot_read_its_inputs_does_not_lead() {
    let holder = on_box(11, first_cannot_read);
    assert_eq!(holder.as_deref(), Some("second"));
}

#[test]
fn a_graceful_stop_hands_over_within_two_seconds() {
    let graceful = on_box(11, |lab| hand_over(lab, DEFAULT_OPTIONS, true));
    assert!(graceful < seconds(2), "{graceful:?}");
    let off = on_box(11, |lab| hand_over(lab, DEFAULT_OPTIONS, false));
    assert!((seconds(10)..seconds(16)).contains(&off), "without a release: {off:?}");
}

#[test]
#[ignore = "needs the real control plane"]
fn real_leaders_sleep_through_their_lease() {
    let landed = on_real(|lab| sleeps_before_the_check(lab, REAL_TIME_OPTIONS));
    assert_eq!(landed, 0);
    let stale = on_real(|lab| sleeps_after_the_check(lab, REAL_TIME_OPTIONS));
    assert_eq!((stale.landed, stale.counted), (1, 1));
    assert!(
        stale.shown.expect("it is corrected") < REAL_TIME_SLACK * seconds(2),
        "{stale:?}"
    );
}

#[test]
#[ignore = "needs the real control plane"]
fn real_leaders_hand_over_before_the_lease_is_over() {
    let long = LeaderOptions {
        lease: |name| LeaseConfig {
            lease_duration: Duration::from_secs(60),
            renew_deadline: Duration::from_secs(40),
            retry_period: Duration::from_millis(400),
            ..LeaseConfig::new("default", "copy", name)
        },
        ..DEFAULT_OPTIONS
    };
    let (graceful, limit) = (on_real(|lab| hand_over(lab, long, true)), REAL_TIME_SLACK * seconds(2));
    assert!(limit < seconds(60) && graceful < limit, "{graceful:?}");
}

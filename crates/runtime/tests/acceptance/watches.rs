//! Watches that fail in every possible way, each alone, and their reported state.

mod engines;
mod losses;
mod views;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::informer::{ReflectorTiming, Scope};
use aplomb::tasks::{TaskHandle, Tasks};
use aplomb::telemetry::Telemetry;
use aplomb::{Cache, Informer, InformerSet, ObjectKey};
use aplomb_simulation::faults::{Fault, Match, Rule, WatchFault};
use aplomb_simulation::{Cluster, Simulation};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

const SECOND: Duration = Duration::from_secs(1);

fn world() -> Simulation {
    Simulation::new(7).interpose(aplomb_virtual_time::install)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

fn maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client("user"), "default")
}

async fn create(cluster: &Cluster, name: &str) {
    let map = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    let made = maps(cluster).create(&PostParams::default(), &map).await;
    made.expect("a new name");
}

async fn touch(cluster: &Cluster, name: &str, value: u64) {
    let patch = Patch::Merge(json!({ "data": { "n": value.to_string() } }));
    let maps = maps(cluster);
    let patched = maps.patch(name, &PatchParams::default(), &patch).await;
    patched.expect("the object exists");
}

fn in_default() -> Scope {
    Scope {
        namespace: Some("default".to_owned()),
        ..Scope::default()
    }
}

type EventLog = Arc<Mutex<Vec<(Duration, String)>>>;

/// A hub of the client `operator` with a watch of the config maps, and its events.
struct Setup {
    hub: InformerSet,
    watch: Informer<ConfigMap>,
    telemetry: Telemetry,
    begin: Instant,
    events: EventLog,
    _tasks: Vec<TaskHandle<()>>,
}

impl Setup {
    fn start(cluster: &Cluster, timing: ReflectorTiming) -> Self {
        Self::start_with(cluster, timing, |_| {})
    }

    fn start_with(cluster: &Cluster, timing: ReflectorTiming, more: impl FnOnce(&InformerSet)) -> Self {
        let (client, telemetry) = (cluster.client("operator"), Telemetry::default());
        let hub = InformerSet::with_timing(client, telemetry.clone(), timing);
        let watch = hub.informer::<ConfigMap>(in_default());
        let told = EventLog::default();
        let (log, begin) = (told.clone(), Instant::now());
        watch.listen(move |event| {
            let line = format!("{event:?}");
            log.lock().unwrap().push((begin.elapsed(), line));
        });
        more(&hub);
        let tasks = hub.start(&Tasks::on_runtime());
        Self {
            hub,
            watch,
            telemetry,
            begin,
            events: told,
            _tasks: tasks,
        }
    }

    /// When the event `line` arrived, since the beginning.
    fn event_time(&self, line: &str) -> Option<Duration> {
        let told = self.events.lock().unwrap();
        let found = told.iter().find(|(_, told)| told == line);
        found.map(|(at, _)| *at)
    }

    fn cache(&self) -> Cache<ConfigMap> {
        self.watch.cache()
    }

    async fn wait_until_synced(&self) {
        let soon = Instant::now() + 10 * SECOND;
        self.watch
            .wait_until_synced(soon)
            .await
            .expect("the watch becomes ready");
    }

    fn event_lines(&self) -> Vec<String> {
        let told = self.events.lock().unwrap();
        told.iter().map(|(_, line)| line.clone()).collect()
    }
}

#[test]
fn a_cache_follows_creations_changes_and_deletions() {
    world().run(|cluster| async move {
        create(&cluster, "a").await;
        let setup = Setup::start(&cluster, ReflectorTiming::default());
        setup.wait_until_synced().await;
        create(&cluster, "b").await;
        touch(&cluster, "a", 1).await;
        let deleted = maps(&cluster).delete("b", &DeleteParams::default()).await;
        deleted.expect("the object exists");
        sleep(SECOND).await;
        let told = setup.event_lines();
        let about = |name: &str| -> Vec<String> {
            let of = format!("default/{name})");
            told.iter().filter(|line| line.ends_with(&of)).cloned().collect()
        };
        assert_eq!(about("a"), ["Found(default/a)", "Changed(default/a)"]);
        assert_eq!(about("b"), ["Added(default/b)", "Deleted(default/b)"]);
        assert!(setup.cache().get(&key("b")).is_none());
        assert!(setup.cache().freshness().is_fresh());
    });
}

/// When each of three creations, 20 s apart, is delivered, with the secrets' watch failing or not.
fn latencies(failing: bool) -> Vec<Option<Duration>> {
    let run = world().run(move |cluster| async move {
        if failing {
            let secrets = Match::any().resource("secrets");
            let rule = Rule::new(Fault::InternalError).on(secrets);
            cluster.faults("operator").add(rule);
        }
        let setup = Setup::start_with(&cluster, ReflectorTiming::default(), |hub| {
            drop(hub.informer::<Secret>(in_default()));
        });
        setup.wait_until_synced().await;
        for (at, name) in [(20, "a"), (40, "b"), (60, "c")] {
            sleep_until(setup.begin + at * SECOND).await;
            create(&cluster, name).await;
            sleep(SECOND).await;
        }
        ["a", "b", "c"].map(|name| setup.event_time(&format!("Added(default/{name})")))
    });
    run.value.to_vec()
}

#[test]
fn a_watch_that_always_fails_adds_nothing_to_the_others() {
    let (alone, beside) = (latencies(false), latencies(true));
    assert_eq!(alone, beside);
    let expected = [20, 40, 60].map(|at| Some(at * SECOND));
    assert_eq!(alone, expected, "each event is delivered when it happens");
}

/// The same with one backoff for both watches, instead of one per watch.
#[test]
fn shared_backoff_delays_the_other_watches() {
    let run = world().run(|cluster| async move {
        let secrets = Match::any().resource("secrets");
        let rule = Rule::new(Fault::InternalError).on(secrets);
        cluster.faults("operator").add(rule);
        let client = cluster.client("operator");
        let config = watcher::Config::default;
        let names = watcher(Api::<ConfigMap>::namespaced(client.clone(), "default"), config());
        let failing = watcher(Api::<Secret>::namespaced(client, "default"), config());
        let names = names.map(|event| event.is_ok_and(|event| matches!(event, Event::Apply(_))));
        let failing = failing.map(|event| event.map(|_| false));
        let both = futures::stream::select(names.map(Ok), failing).default_backoff();
        let told = tokio::spawn(both.filter_map(record_event_time).take(5).collect::<Vec<Instant>>());
        let mut made = Vec::new();
        for at in 0..5 {
            sleep(97 * SECOND).await;
            made.push(Instant::now());
            create(&cluster, &format!("late-{at}")).await;
        }
        let told = told.await.unwrap();
        let waits = told.iter().zip(made).map(|(told, made)| *told - made);
        waits.max()
    });
    assert!(run.value > Some(SECOND), "{:?}", run.value);
}

async fn record_event_time(event: Result<bool, watcher::Error>) -> Option<Instant> {
    event.is_ok_and(|applied| applied).then(Instant::now)
}

#[test]
fn readiness_error_names_the_failing_watch() {
    let run = world().run(|cluster| async move {
        let secrets = Match::any().resource("secrets");
        let rule = Rule::new(Fault::Unauthorized).on(secrets);
        cluster.faults("operator").add(rule);
        let setup = Setup::start_with(&cluster, ReflectorTiming::default(), |hub| {
            drop(hub.informer::<Secret>(in_default()));
        });
        let ready = setup.hub.wait_until_synced(setup.begin + 5 * SECOND).await;
        (ready.unwrap_err().to_string(), setup.watch.state())
    });
    let (error, other) = run.value;
    let expected = "watch of Secret in namespace default is not ready: Unauthorized (401)";
    assert_eq!(error, expected);
    assert!(other.freshness.is_fresh(), "the other watch is fresh");
}

/// A watch that is black-holed ten seconds after it was opened, and a creation ten seconds later:
/// when the creation is delivered, within five minutes.
fn black_hole(silence: Duration) -> Option<Duration> {
    let run = world().run(move |cluster| async move {
        let fault = Fault::Watch(WatchFault::BlackHoled(10 * SECOND));
        let rule = Rule::new(fault).on(Match::watches().resource("configmaps"));
        cluster.faults("operator").add(rule.once());
        let timing = ReflectorTiming {
            silence_timeout: silence,
            ..ReflectorTiming::default()
        };
        let setup = Setup::start(&cluster, timing);
        setup.wait_until_synced().await;
        sleep_until(setup.begin + 20 * SECOND).await;
        create(&cluster, "hidden").await;
        sleep_until(setup.begin + 300 * SECOND).await;
        setup.event_time("Added(default/hidden)")
    });
    run.value
}

#[test]
fn a_black_holed_watch_is_noticed_within_90_seconds() {
    let told = black_hole(ReflectorTiming::default().silence_timeout);
    let since = told.map(|at| at - 10 * SECOND);
    assert!(since.is_some_and(|since| since < 90 * SECOND), "{told:?}");
    assert_eq!(black_hole(3600 * SECOND), None, "without the limit it is not delivered");
}

#[test]
fn quiet_watch_is_not_restarted() {
    world().run(|cluster| async move {
        let setup = Setup::start(&cluster, ReflectorTiming::default());
        setup.wait_until_synced().await;
        let mut freshness = setup.cache().watch_freshness();
        let lost = freshness.wait_for(|freshness| !freshness.is_fresh());
        let lost = tokio::time::timeout(3600 * SECOND, lost).await;
        assert!(lost.is_err(), "{:?}", setup.watch.state());
        let age = setup.cache().freshness().age(Instant::now());
        assert!(age.is_some_and(|age| age < 75 * SECOND), "{age:?}");
        assert!(!setup.telemetry.text().contains("aplomb_watch_restarts_total{"));
    });
}

#[test]
fn disconnected_cache_is_stale_until_it_reconnects() {
    world().run(|cluster| async move {
        let hole = Fault::Watch(WatchFault::BlackHoled(Duration::ZERO));
        let watches = Match::watches().resource("configmaps");
        let faults = cluster.faults("operator");
        let until = cluster.trace().elapsed() + 100 * SECOND;
        faults.add(Rule::new(hole).on(watches).between(Duration::ZERO, until));
        let setup = Setup::start(&cluster, ReflectorTiming::default());
        setup.wait_until_synced().await;
        assert!(setup.cache().freshness().is_fresh());
        sleep_until(setup.begin + 90 * SECOND).await;
        let state = setup.watch.state();
        assert!(!state.freshness.is_fresh(), "the head of a new watch proves nothing");
        assert!(state.freshness.synced);
        assert_eq!(state.trouble.as_deref(), Some("no data received"));
        let metrics = setup.telemetry.text();
        let age = "aplomb_watch_freshness_seconds{kind=\"ConfigMap\"} 90.0";
        assert!(metrics.contains(age), "{metrics}");
        let lost = "aplomb_watch_restarts_total{kind=\"ConfigMap\",reason=\"silence\"} 1";
        assert!(metrics.contains(lost), "{metrics}");
        sleep_until(setup.begin + 250 * SECOND).await;
        assert!(setup.cache().freshness().is_fresh());
        assert_eq!(setup.watch.state().trouble, None);
    });
}

#[test]
fn missing_response_head_times_out() {
    world().run(|cluster| async move {
        let slow = aplomb_simulation::faults::Latency::Fixed(3600 * SECOND);
        let rule = Rule::new(Fault::Latency(slow)).on(Match::watches());
        cluster.faults("operator").add(rule.once());
        let setup = Setup::start(&cluster, ReflectorTiming::default());
        setup.wait_until_synced().await;
        create(&cluster, "a").await;
        sleep_until(setup.begin + 60 * SECOND).await;
        let told = setup.event_time("Added(default/a)");
        assert!(told.is_some_and(|at| at <= 32 * SECOND), "{told:?}");
    });
}

//! Watches fail in every way a watch can, alone, and say so.

mod engines;
mod losses;
mod views;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::tasks::{Task, Tasks};
use aplomb::telemetry::Telemetry;
use aplomb::watch::{Scope, Timing};
use aplomb::{Cache, Hub, Key, Watch};
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

fn key(name: &str) -> Key {
    Key::new(Some("default"), name)
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
    patched.expect("it is there");
}

fn in_default() -> Scope {
    Scope {
        namespace: Some("default".to_owned()),
        ..Scope::default()
    }
}

type Told = Arc<Mutex<Vec<(Duration, String)>>>;

/// A hub of the client `operator` with a watch of the config maps, and what it told.
struct Setup {
    hub: Hub,
    watch: Watch<ConfigMap>,
    telemetry: Telemetry,
    begin: Instant,
    told: Told,
    _tasks: Vec<Task<()>>,
}

impl Setup {
    fn start(cluster: &Cluster, timing: Timing) -> Self {
        Self::start_with(cluster, timing, |_| {})
    }

    fn start_with(cluster: &Cluster, timing: Timing, more: impl FnOnce(&Hub)) -> Self {
        let (client, telemetry) = (cluster.client("operator"), Telemetry::default());
        let hub = Hub::with_timing(client, telemetry.clone(), timing);
        let watch = hub.watch::<ConfigMap>(in_default());
        let told = Told::default();
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
            told,
            _tasks: tasks,
        }
    }

    /// When `line` was told, since the beginning.
    fn told_at(&self, line: &str) -> Option<Duration> {
        let told = self.told.lock().unwrap();
        let found = told.iter().find(|(_, told)| told == line);
        found.map(|(at, _)| *at)
    }

    fn cache(&self) -> Cache<ConfigMap> {
        self.watch.cache()
    }

    async fn ready(&self) {
        let soon = Instant::now() + 10 * SECOND;
        self.watch.ready(soon).await.expect("the box answers");
    }

    fn told(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        told.iter().map(|(_, line)| line.clone()).collect()
    }
}

#[test]
fn a_cache_follows_creations_changes_and_deletions() {
    world().run(|cluster| async move {
        create(&cluster, "a").await;
        let setup = Setup::start(&cluster, Timing::default());
        setup.ready().await;
        create(&cluster, "b").await;
        touch(&cluster, "a", 1).await;
        let deleted = maps(&cluster).delete("b", &DeleteParams::default()).await;
        deleted.expect("it is there");
        sleep(SECOND).await;
        let told = setup.told();
        let about = |name: &str| -> Vec<String> {
            let of = format!("default/{name})");
            told.iter()
                .filter(|line| line.ends_with(&of))
                .cloned()
                .collect()
        };
        assert_eq!(about("a"), ["Found(default/a)", "Changed(default/a)"]);
        assert_eq!(about("b"), ["Added(default/b)", "Deleted(default/b)"]);
        assert!(setup.cache().get(&key("b")).is_none());
        assert!(setup.cache().freshness().is_fresh());
    });
}

/// When each of three creations, 20 s apart, is told, with the secrets' watch failing or not.
fn latencies(failing: bool) -> Vec<Option<Duration>> {
    let run = world().run(move |cluster| async move {
        if failing {
            let secrets = Match::any().resource("secrets");
            let rule = Rule::new(Fault::InternalError).on(secrets);
            cluster.faults("operator").add(rule);
        }
        let setup = Setup::start_with(&cluster, Timing::default(), |hub| {
            drop(hub.watch::<Secret>(in_default()));
        });
        setup.ready().await;
        for (at, name) in [(20, "a"), (40, "b"), (60, "c")] {
            sleep_until(setup.begin + at * SECOND).await;
            create(&cluster, name).await;
            sleep(SECOND).await;
        }
        ["a", "b", "c"].map(|name| setup.told_at(&format!("Added(default/{name})")))
    });
    run.value.to_vec()
}

#[test]
fn a_watch_that_always_fails_adds_nothing_to_the_others() {
    let (alone, beside) = (latencies(false), latencies(true));
    assert_eq!(alone, beside);
    let expected = [20, 40, 60].map(|at| Some(at * SECOND));
    assert_eq!(alone, expected, "each is told when it happens");
}

/// The same with one backoff for both watches, which is what our own tasks and backoffs replace.
#[test]
fn a_shared_backoff_would_have_made_them_wait() {
    let run = world().run(|cluster| async move {
        let secrets = Match::any().resource("secrets");
        let rule = Rule::new(Fault::InternalError).on(secrets);
        cluster.faults("operator").add(rule);
        let client = cluster.client("operator");
        let config = watcher::Config::default;
        let names = watcher(
            Api::<ConfigMap>::namespaced(client.clone(), "default"),
            config(),
        );
        let failing = watcher(Api::<Secret>::namespaced(client, "default"), config());
        let names = names.map(|event| event.is_ok_and(|event| matches!(event, Event::Apply(_))));
        let failing = failing.map(|event| event.map(|_| false));
        let both = futures::stream::select(names.map(Ok), failing).default_backoff();
        let told = tokio::spawn(both.filter_map(told_now).take(5).collect::<Vec<Instant>>());
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

async fn told_now(event: Result<bool, watcher::Error>) -> Option<Instant> {
    event.is_ok_and(|applied| applied).then(Instant::now)
}

#[test]
fn readiness_names_the_watch_that_is_not_and_why() {
    let run = world().run(|cluster| async move {
        let secrets = Match::any().resource("secrets");
        let rule = Rule::new(Fault::Unauthorized).on(secrets);
        cluster.faults("operator").add(rule);
        let setup = Setup::start_with(&cluster, Timing::default(), |hub| {
            drop(hub.watch::<Secret>(in_default()));
        });
        let ready = setup.hub.ready(setup.begin + 5 * SECOND).await;
        (ready.unwrap_err().to_string(), setup.watch.state())
    });
    let (error, other) = run.value;
    let expected = "the watch of Secret in namespace default is not ready: Unauthorized (401)";
    assert_eq!(error, expected);
    assert!(other.freshness.is_fresh(), "the other one is");
}

/// A watch that is black-holed ten seconds after it was opened, and a creation ten seconds later:
/// when the creation is told, within five minutes.
fn black_hole(silence: Duration) -> Option<Duration> {
    let run = world().run(move |cluster| async move {
        let fault = Fault::Watch(WatchFault::BlackHoled(10 * SECOND));
        let rule = Rule::new(fault).on(Match::watches().resource("configmaps"));
        cluster.faults("operator").add(rule.once());
        let timing = Timing {
            silence,
            ..Timing::default()
        };
        let setup = Setup::start(&cluster, timing);
        setup.ready().await;
        sleep_until(setup.begin + 20 * SECOND).await;
        create(&cluster, "hidden").await;
        sleep_until(setup.begin + 300 * SECOND).await;
        setup.told_at("Added(default/hidden)")
    });
    run.value
}

#[test]
fn a_black_holed_watch_is_noticed_within_90_seconds() {
    let told = black_hole(Timing::default().silence);
    let since = told.map(|at| at - 10 * SECOND);
    assert!(since.is_some_and(|since| since < 90 * SECOND), "{told:?}");
    assert_eq!(
        black_hole(3600 * SECOND),
        None,
        "without the limit it is not"
    );
}

#[test]
fn a_quiet_watch_is_not_taken_for_a_dead_one() {
    world().run(|cluster| async move {
        let setup = Setup::start(&cluster, Timing::default());
        setup.ready().await;
        let mut freshness = setup.cache().follow_freshness();
        let lost = freshness.wait_for(|freshness| !freshness.is_fresh());
        let lost = tokio::time::timeout(3600 * SECOND, lost).await;
        assert!(lost.is_err(), "{:?}", setup.watch.state());
        let age = setup.cache().freshness().age(Instant::now());
        assert!(age.is_some_and(|age| age < 75 * SECOND), "{age:?}");
        assert!(
            !setup
                .telemetry
                .text()
                .contains("aplomb_watch_restarts_total{")
        );
    });
}

#[test]
fn a_cache_that_is_cut_off_says_so_until_it_hears_again() {
    world().run(|cluster| async move {
        let hole = Fault::Watch(WatchFault::BlackHoled(Duration::ZERO));
        let watches = Match::watches().resource("configmaps");
        let faults = cluster.faults("operator");
        let until = cluster.trace().elapsed() + 100 * SECOND;
        faults.add(Rule::new(hole).on(watches).between(Duration::ZERO, until));
        let setup = Setup::start(&cluster, Timing::default());
        setup.ready().await;
        assert!(setup.cache().freshness().is_fresh());
        sleep_until(setup.begin + 90 * SECOND).await;
        let state = setup.watch.state();
        assert!(
            !state.freshness.is_fresh(),
            "the head of a new watch proves nothing"
        );
        assert!(state.freshness.synced);
        assert_eq!(state.trouble.as_deref(), Some("nothing was heard"));
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
fn a_head_that_never_comes_is_given_up() {
    world().run(|cluster| async move {
        let slow = aplomb_simulation::faults::Latency::Fixed(3600 * SECOND);
        let rule = Rule::new(Fault::Latency(slow)).on(Match::watches());
        cluster.faults("operator").add(rule.once());
        let setup = Setup::start(&cluster, Timing::default());
        setup.ready().await;
        create(&cluster, "a").await;
        sleep_until(setup.begin + 60 * SECOND).await;
        let told = setup.told_at("Added(default/a)");
        assert!(told.is_some_and(|at| at <= 32 * SECOND), "{told:?}");
    });
}

//! Worlds: the same seed is the same run, components crash where they are told to, time is virtual.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aplomb_simulation::faults::{Fault, Rule};
use aplomb_simulation::trace::Difference;
use aplomb_simulation::{Cluster, Component, Counts, Crash, CrashPoint, Process, Simulation, StillRunning};

use crate::common::scenario::{self, Plant};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

fn world(seed: u64) -> Simulation {
    Simulation::new(seed).interpose(aplomb_virtual_time::install)
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let [first, second, other] = [7, 7, 8].map(|seed| scenario::run(seed, None));
    assert_eq!(Difference::first(&first.trace, &second.trace), None);
    assert_eq!(first.value.wrong, Vec::<String>::new());
    assert!(first.value.requests >= 500, "{:?}", first.value);
    assert!(first.value.faults >= 20, "{:?}", first.value);
    assert!(Difference::first(&first.trace, &other.trace).is_some());
}

#[test]
fn a_planted_dependence_on_hash_order_is_caught() {
    let caught = (1..=5).find_map(|seed| {
        let [first, second] = [0, 1].map(|_| scenario::run(seed, Some(Plant::HashOrder)).trace);
        Difference::first(&first, &second)
    });
    let difference = caught.expect("a hash map of ten has no order to rely on");
    println!("{difference}");
    let lines = difference.left.iter().chain(&difference.right);
    assert!(
        lines.into_iter().any(|line| line.contains("/sites/site-")),
        "{difference}"
    );
}

/// Makes three ConfigMaps, one after the other, whatever is there already.
async fn make_three(process: Process) {
    let maps: Api<ConfigMap> = Api::namespaced(process.client(), "default");
    for number in 1..=3 {
        let name = format!("map-{number}");
        let metadata = json!({ "name": name });
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        let params = PatchParams::apply("three");
        maps.patch(&name, &params, &Patch::Apply(&map))
            .await
            .expect("no faults here");
    }
}

fn counts_after(crashes: Vec<Crash>) -> (Vec<Counts>, u64, usize) {
    let run = world(1).run(move |cluster| async move {
        let component = cluster.start("three", make_three);
        for crash in crashes {
            component.crash_at(crash);
        }
        sleep(Duration::from_secs(60)).await;
        let counts = cluster.writes().counts();
        let maps = counts.into_iter().filter(|(name, _)| name.contains("/map-"));
        let crashes = cluster.trace().count(|line| line.contains(" three crash "));
        (maps.map(|(_, counts)| counts).collect(), component.effects(), crashes)
    });
    run.value
}

#[test]
fn a_crash_falls_on_the_chosen_side_of_the_chosen_effect() {
    let once = Counts {
        creates: 1,
        updates: 0,
        deletes: 0,
    };
    assert_eq!(counts_after(vec![]), (vec![once; 3], 3, 0));
    for (point, repeated) in [(CrashPoint::BeforeSend, 3), (CrashPoint::AfterCommit, 3)] {
        let crash = Crash { effect: 2, point };
        // Two effects in the first life, three in the second; applying again changes nothing.
        assert_eq!(counts_after(vec![crash]), (vec![once; 3], 2 + repeated, 1));
    }
}

#[test]
fn every_crash_point_of_a_run_can_be_visited() {
    let effects = counts_after(vec![]).1;
    for effect in 1..=effects {
        for point in [CrashPoint::BeforeSend, CrashPoint::AfterCommit] {
            let (counts, _, crashes) = counts_after(vec![Crash { effect, point }]);
            assert_eq!((counts.len(), crashes), (3, 1), "{point:?} {effect}");
        }
    }
}

#[test]
fn external_effects_are_counted_and_lost_answers_repeat_them() {
    let run = world(1).run(|cluster| async move {
        let calls = Arc::new(AtomicU64::new(0));
        let cloud = calls.clone();
        let component = cluster.start("assigner", move |process| {
            let cloud = cloud.clone();
            async move {
                let assign = async { cloud.fetch_add(1, Ordering::Relaxed) };
                process.effect("assign 192.0.2.1", assign).await;
            }
        });
        component.crash_at(Crash {
            effect: 1,
            point: CrashPoint::AfterCommit,
        });
        sleep(Duration::from_secs(10)).await;
        calls.load(Ordering::Relaxed)
    });
    assert_eq!(run.value, 2);
    assert!(
        run.trace
            .contains(&"0.000000 assigner effect 1 assign 192.0.2.1".to_owned())
    );
    assert!(
        run.trace
            .contains(&"1.000000 assigner effect 2 assign 192.0.2.1".to_owned())
    );
}

#[test]
fn what_has_crashed_sends_nothing_any_more() {
    let run = world(1).run(|cluster| async move {
        let component = cluster.start("leaky", |process| async move {
            let maps: Api<ConfigMap> = Api::namespaced(process.client(), "default");
            // A task the component has lost sight of keeps its client, but not its connection.
            tokio::spawn(async move {
                loop {
                    sleep(Duration::from_secs(1)).await;
                    drop(maps.get_opt("any").await);
                }
            });
            std::future::pending::<()>().await;
        });
        sleep(Duration::from_millis(3500)).await;
        component.crash();
        drop(component);
        sleep(Duration::from_secs(60)).await;
        cluster.trace().count(|line| line.contains("leaky request"))
    });
    assert_eq!(run.value, 3);
}

#[test]
fn a_frozen_component_does_not_run_and_does_not_know() {
    let run = world(1).run(|cluster| async move {
        let component = cluster.start("beating", |process| async move {
            loop {
                process.effect("beat", async {}).await;
                sleep(Duration::from_secs(1)).await;
            }
        });
        sleep(Duration::from_millis(2500)).await;
        component.freeze();
        sleep(Duration::from_secs(10)).await;
        let frozen = component.effects();
        component.thaw();
        sleep(Duration::from_millis(500)).await;
        (frozen, component.effects())
    });
    assert_eq!(run.value, (3, 4));
}

#[test]
fn replicas_have_clocks_of_their_own() {
    let run = world(1).run(|cluster| async move {
        let say_time = |process: Process| async move {
            loop {
                sleep(Duration::from_secs(10)).await;
                let now = process.clock().now();
                process
                    .effect(&format!("{} says {now}", process.name()), async {})
                    .await;
            }
        };
        let [_right, wrong] = ["right", "wrong"].map(|name| cluster.start(name, say_time));
        wrong.skew_millis(-30_000);
        sleep(Duration::from_secs(11)).await;
    });
    let said: Vec<&str> = run
        .trace
        .iter()
        .filter_map(|line| line.split(" says ").nth(1))
        .collect();
    assert_eq!(said, ["2026-01-01T00:00:10Z", "2025-12-31T23:59:40Z"]);
}

async fn a_few_requests(cluster: Cluster) -> Result<Duration, StillRunning> {
    let _component = cluster.start("busy", |process| async move {
        let maps: Api<ConfigMap> = Api::namespaced(process.client(), "default");
        for _ in 0..5 {
            sleep(Duration::from_secs(7)).await;
            drop(maps.get_opt("any").await);
        }
    });
    cluster.quiesce(Duration::from_secs(10), Duration::from_secs(300)).await
}

#[test]
fn quiescence_is_seen_once_nothing_is_sent_any_more() {
    let settled = world(1).run(a_few_requests).value.expect("it settles");
    assert!((35..50).contains(&settled.as_secs()), "{settled:?}");
    let restless = world(1).run(|cluster| async move {
        let _component = cluster.start("busy", |process| async move {
            loop {
                sleep(Duration::from_secs(7)).await;
                process.effect("fidget", async {}).await;
            }
        });
        cluster.quiesce(Duration::from_secs(10), Duration::from_secs(300)).await
    });
    assert_eq!(restless.value, Err(StillRunning(Duration::from_secs(300))));
}

#[test]
fn clients_retry_as_in_production() {
    let run = world(1).run(|cluster| async move {
        cluster
            .faults("user")
            .add(Rule::new(Fault::TooManyRequestsText { retry_after: 2 }).first(3));
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client("user"), "default");
        let list = maps.list(&Default::default()).await.expect("the client tried again");
        (
            list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
            cluster.trace().elapsed(),
        )
    });
    assert!(run.value.1 >= Duration::from_secs(6), "{:?}", run.value);
    assert_eq!(run.trace.iter().filter(|line| line.contains(" request ")).count(), 4);
}

#[test]
fn two_runs_that_should_end_alike_can_be_compared() {
    let end = |crashes: Vec<Crash>| {
        let run = world(1).run(move |cluster| async move {
            let component = cluster.start("three", make_three);
            crashes.into_iter().for_each(|crash| component.crash_at(crash));
            sleep(Duration::from_secs(60)).await;
            cluster.state()
        });
        run.value
    };
    let undisturbed = end(vec![]);
    assert!(undisturbed.contains_key("configmaps/default/map-3"), "{undisturbed:?}");
    let crashed = end(vec![Crash {
        effect: 3,
        point: CrashPoint::BeforeSend,
    }]);
    assert_eq!(undisturbed, crashed);
}

/// A component that panics in its first life only.
fn panics_once(cluster: &Cluster) -> Component {
    let lives = Arc::new(AtomicU64::new(0));
    cluster.start("shaky", move |process| {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        async move {
            process.effect("begin", async {}).await;
            assert!(life > 0, "the first life panics");
            std::future::pending::<()>().await;
        }
    })
}

type Scenario = fn(Cluster) -> BoxFuture<'static, ()>;

/// What the run fails with, if it does.
fn failure(world: Simulation, scenario: Scenario) -> Option<String> {
    let run = AssertUnwindSafe(|| world.run(scenario));
    let failed = catch_unwind(run).err()?;
    Some(failed.downcast_ref::<String>().expect("a text").clone())
}

#[test]
fn a_panic_that_a_restart_heals_fails_the_run_unless_it_is_expected() {
    let heals: Scenario = |cluster| {
        async move {
            let component = panics_once(&cluster);
            sleep(Duration::from_secs(10)).await;
            assert_eq!(component.effects(), 2, "it was started again");
        }
        .boxed()
    };
    let failed = failure(world(1), heals).expect("the run fails");
    assert!(failed.contains("the first life panics"), "{failed}");
    assert!(failed.contains("tests/world.rs"), "{failed}");
    let expecting = world(1).expect_panic("the first life");
    assert_eq!(failure(expecting, heals), None);
    let another = failure(world(1).expect_panic("the second life"), heals);
    assert!(another.is_some(), "another panic than the expected one");
}

#[test]
fn a_panic_fails_the_run_wherever_it_is_caught() {
    let caught = |_: Cluster| {
        let work = async { assert!(vec![1].is_empty(), "a defect") };
        async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            assert!(ended.is_err());
        }
        .boxed()
    };
    let forgotten = |_: Cluster| {
        async {
            drop(tokio::spawn(async { panic!("a defect") }));
            sleep(Duration::from_secs(1)).await;
        }
        .boxed()
    };
    let of_a_process = |cluster: Cluster| {
        async move {
            let _component = cluster.start("one", |process| async move {
                process.spawn(async { panic!("a defect") });
                std::future::pending::<()>().await;
            });
            sleep(Duration::from_millis(500)).await;
        }
        .boxed()
    };
    // As where a panic of another thread is passed on: no hook sees it here.
    let passed_on = |cluster: Cluster| {
        async move {
            let _component = cluster.start("one", |_| async {
                std::panic::resume_unwind(Box::new("a defect"));
            });
            sleep(Duration::from_millis(500)).await;
        }
        .boxed()
    };
    let on_a_thread = |_: Cluster| async { drop(std::thread::spawn(|| panic!("a defect")).join()) }.boxed();
    let scenarios: [Scenario; 5] = [caught, forgotten, of_a_process, passed_on, on_a_thread];
    for scenario in scenarios {
        let failed = failure(world(1), scenario).expect("the run fails");
        assert!(failed.contains("a defect"), "{failed}");
    }
}

#[test]
fn a_panic_is_expected_by_its_text_whatever_is_in_it() {
    let quoted: Scenario = |_| {
        async {
            drop(tokio::spawn(async { panic!("a \"quoted\"\ndefect") }));
            sleep(Duration::from_secs(1)).await;
        }
        .boxed()
    };
    let expecting = world(1).expect_panic("a \"quoted\"\ndefect");
    assert_eq!(failure(expecting, quoted), None);
}

#[test]
fn an_expected_panic_that_does_not_happen_fails_the_run() {
    let failed = failure(world(1).expect_panic("a defect"), |_| async {}.boxed());
    assert!(failed.expect("the run fails").contains("did not happen"));
    assert_eq!(failure(world(1), |_| async {}.boxed()), None, "the next run");
}

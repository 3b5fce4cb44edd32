//! After any loss of a watch, the cache and its listeners converge to the same state.

use std::collections::BTreeMap;
use std::time::Duration;

use aplomb::Cache;
use aplomb::informer::ReflectorTiming;
use aplomb_apiserver::call::Verb;
use aplomb_simulation::faults::{Fault, Match, Rule, Sampler, WatchFault};
use aplomb_simulation::{Cluster, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use tokio::time::sleep;

use super::{SECOND, Setup, create, maps, touch, world};

/// The names and versions on the server and in the cache.
async fn compare(cluster: &Cluster, cache: &Cache<ConfigMap>) -> [BTreeMap<String, String>; 2] {
    let of = |map: &ConfigMap| (map.name_any(), map.resource_version().unwrap_or_default());
    let listed = maps(cluster).list(&ListParams::default()).await;
    let server = listed.expect("the user's requests meet no fault");
    let server = server.items.iter().map(of).collect();
    [server, cache.list().iter().map(|map| of(map)).collect()]
}

/// The state of a listener that only receives events: the existing names.
fn replayed(told: &[String]) -> Vec<String> {
    let mut there = BTreeMap::new();
    for line in told {
        let (word, name) = line.trim_end_matches(')').split_once('(').unwrap();
        match word {
            "Deleted" => there.remove(name),
            _ => there.insert(name.to_owned(), ()),
        };
    }
    there.into_keys().collect()
}

/// Creates, changes and deletes config maps for a minute.
async fn busy_minute(cluster: &Cluster) {
    for round in 0..20u64 {
        let name = format!("map-{}", round % 6);
        if round % 6 == 5 || round == 8 {
            drop(maps(cluster).delete("map-1", &DeleteParams::default()).await);
        }
        if maps(cluster).get_opt(&name).await.unwrap().is_some() {
            touch(cluster, &name, round).await;
        } else {
            create(cluster, &name).await;
        }
        sleep(3 * SECOND).await;
    }
}

#[test]
fn every_way_a_watch_can_die_ends_with_the_same_cache() {
    let watch = Fault::Watch;
    let faults = [
        watch(WatchFault::Dropped(10 * SECOND)),
        watch(WatchFault::Dropped(Duration::ZERO)),
        watch(WatchFault::CutMidLine(2)),
        watch(WatchFault::CutMidLine(0)),
        watch(WatchFault::Expired),
        watch(WatchFault::Held(7 * SECOND)),
        Fault::Gone,
        Fault::InternalError,
        Fault::ServiceUnavailable,
        Fault::TooManyRequestsText { retry_after: 2 },
        Fault::Unauthorized,
        Fault::Reset { committed: false },
        Fault::Truncated { keep: 90 },
    ];
    for fault in faults {
        let name = fault.to_string();
        world().run(|cluster| async move {
            create(&cluster, "map-0").await;
            create(&cluster, "map-1").await;
            cluster.faults("operator").add(Rule::new(fault).first(6));
            let setup = Setup::start(&cluster, ReflectorTiming::default());
            busy_minute(&cluster).await;
            sleep(60 * SECOND).await;
            let [server, cache] = compare(&cluster, &setup.cache()).await;
            assert_eq!(server, cache, "{name}");
            let there: Vec<String> = server.keys().map(|name| format!("default/{name}")).collect();
            assert_eq!(replayed(&setup.event_lines()), there, "{name}");
            assert!(setup.cache().freshness().is_fresh(), "{name}");
        });
    }
}

#[test]
fn bad_days_end_with_the_same_cache() {
    for seed in 0..12 {
        let world = Simulation::new(seed).interpose(aplomb_virtual_time::install);
        world.run(move |cluster| async move {
            let faults = cluster.faults("operator");
            faults.sample(Sampler::bad_day(seed, 0.3));
            let setup = Setup::start(&cluster, ReflectorTiming::default());
            for _ in 0..4 {
                busy_minute(&cluster).await;
            }
            faults.clear();
            sleep(120 * SECOND).await;
            let [server, cache] = compare(&cluster, &setup.cache()).await;
            assert_eq!(server, cache, "seed {seed}");
            let there: Vec<String> = server.keys().map(|name| format!("default/{name}")).collect();
            assert_eq!(replayed(&setup.event_lines()), there, "seed {seed}");
        });
    }
}

#[test]
fn a_restart_of_the_server_loses_nothing() {
    world().run(|cluster| async move {
        let setup = Setup::start(&cluster, ReflectorTiming::default());
        setup.wait_until_synced().await;
        create(&cluster, "before").await;
        cluster.outages().restart(10 * SECOND, 5 * SECOND);
        sleep(5 * SECOND).await;
        assert!(!setup.cache().freshness().is_fresh());
        sleep(20 * SECOND).await;
        create(&cluster, "after").await;
        sleep(30 * SECOND).await;
        let [server, cache] = compare(&cluster, &setup.cache()).await;
        assert_eq!(server, cache);
        assert!(setup.cache().freshness().is_fresh());
    });
}

#[test]
fn relist_emits_only_deletions_during_the_gap() {
    world().run(|cluster| async move {
        for name in ["a", "b", "c"] {
            create(&cluster, name).await;
        }
        let down = Rule::new(Fault::Reset { committed: false }).on(Match::any().verb(Verb::Watch));
        let faults = cluster.faults("operator");
        let drop_at = Fault::Watch(WatchFault::Dropped(10 * SECOND));
        faults.add(Rule::new(drop_at).on(Match::watches()).once());
        let from = cluster.trace().elapsed() + 5 * SECOND;
        faults.add(down.between(from, from + 30 * SECOND));
        let until = from + 90 * SECOND;
        faults.add(
            Rule::new(Fault::Gone)
                .on(Match::watches())
                .between(from + 30 * SECOND, until)
                .once(),
        );
        let setup = Setup::start(&cluster, ReflectorTiming::default());
        sleep(20 * SECOND).await;
        let gone = maps(&cluster).delete("b", &DeleteParams::default()).await;
        gone.expect("the object exists");
        sleep(120 * SECOND).await;
        let found = ["Found(default/a)", "Found(default/b)", "Found(default/c)"];
        assert_eq!(setup.event_lines()[..3], found);
        assert_eq!(setup.event_lines()[3..], ["Deleted(default/b)"]);
    });
}

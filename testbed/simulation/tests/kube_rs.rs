//! kube-rs's own `watcher`, `reflector`, `Controller` and `finalizer`, unchanged, on the box.

use std::time::Duration;

use aplomb_simulation::faults::{Fault, Match, Rule, WatchFault};
use aplomb_simulation::{Cluster, Simulation};

use crate::common::operator::{FINALIZER, Operator, Site, SiteSpec};
use crate::common::scenario::install_crd;
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, ObjectRef, reflector};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{sleep, timeout};

fn world(seed: u64) -> Simulation {
    Simulation::new(seed).interpose(aplomb_virtual_time::install)
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let data = Some([("key".to_owned(), value.to_owned())].into());
    ConfigMap {
        metadata,
        data,
        ..ConfigMap::default()
    }
}

fn maps(cluster: &Cluster, identity: &str) -> Api<ConfigMap> {
    Api::namespaced(cluster.client(identity), "default")
}

async fn create(cluster: &Cluster, name: &str) {
    let map = config_map(name, "1");
    maps(cluster, "user")
        .create(&PostParams::default(), &map)
        .await
        .expect("created");
}

async fn touch(cluster: &Cluster, name: &str, value: &str) {
    let patch = Patch::Merge(json!({ "data": { "key": value } }));
    let params = PatchParams::default();
    maps(cluster, "user")
        .patch(name, &params, &patch)
        .await
        .expect("patched");
}

async fn delete(cluster: &Cluster, name: &str) {
    maps(cluster, "user")
        .delete(name, &DeleteParams::default())
        .await
        .expect("deleted");
}

/// The next event as a word and a name.
async fn next<E: std::fmt::Debug>(
    events: &mut (impl Stream<Item = Result<watcher::Event<ConfigMap>, E>> + Unpin),
) -> String {
    let event = timeout(Duration::from_secs(600), events.next())
        .await
        .expect("an event in time");
    match event.expect("it does not end").expect("no error") {
        watcher::Event::Init => "init".to_owned(),
        watcher::Event::InitApply(map) => format!("initial {}", map.name_any()),
        watcher::Event::InitDone => "done".to_owned(),
        watcher::Event::Apply(map) => format!("apply {}", map.name_any()),
        watcher::Event::Delete(map) => format!("delete {}", map.name_any()),
    }
}

async fn follow_one_life(config: watcher::Config, cluster: Cluster) {
    create(&cluster, "a").await;
    let events = watcher(maps(&cluster, "watcher"), config);
    let mut events = std::pin::pin!(events);
    for expected in ["init", "initial a", "done"] {
        assert_eq!(next(&mut events).await, expected);
    }
    create(&cluster, "b").await;
    touch(&cluster, "a", "2").await;
    delete(&cluster, "b").await;
    for expected in ["apply b", "apply a", "delete b"] {
        assert_eq!(next(&mut events).await, expected);
    }
}

#[test]
fn a_watcher_lists_and_follows() {
    world(1).run(|cluster| follow_one_life(watcher::Config::default(), cluster));
}

#[test]
fn a_watcher_streams_its_list() {
    world(1).run(|cluster| follow_one_life(watcher::Config::default().streaming_lists(), cluster));
}

#[test]
fn a_watcher_pages_through_a_long_list() {
    world(1).run(|cluster| async move {
        for number in 0..7 {
            create(&cluster, &format!("map-{number}")).await;
        }
        let config = watcher::Config::default().page_size(3);
        let events = watcher(maps(&cluster, "watcher"), config);
        let seen: Vec<String> = std::pin::pin!(events)
            .take(9)
            .map_ok(|event| format!("{event:?}").chars().take(9).collect())
            .try_collect()
            .await
            .expect("no error");
        assert_eq!(seen.iter().filter(|event| event.starts_with("InitApply")).count(), 7);
        let pages = cluster.trace().count(|line| line.contains("limit=3"));
        assert_eq!(pages, 3, "{:#?}", cluster.trace().lines());
    });
}

#[test]
fn a_metadata_watcher_sees_names() {
    world(1).run(|cluster| async move {
        create(&cluster, "a").await;
        let maps: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(cluster.client("watcher"), "default");
        let events = watcher(maps, watcher::Config::default());
        let mut objects = std::pin::pin!(events.applied_objects());
        let first = objects.next().await.expect("one").expect("no error");
        assert_eq!(first.name_any(), "a");
    });
}

#[test]
fn a_watcher_recovers_from_everything_a_watch_can_suffer() {
    let seconds = Duration::from_secs;
    let faults = [
        WatchFault::Expired,
        WatchFault::Dropped(seconds(1)),
        WatchFault::CutMidLine(0),
        WatchFault::Held(seconds(10)),
        WatchFault::Lagged(seconds(10)),
        WatchFault::BlackHoled(seconds(0)),
    ];
    for fault in faults {
        world(2).run(move |cluster| async move {
            let rule = Rule::new(Fault::Watch(fault.clone())).on(Match::watches()).once();
            cluster.faults("watcher").add(rule);
            let events = watcher(maps(&cluster, "watcher"), watcher::Config::default());
            let mut applied = std::pin::pin!(events.default_backoff().applied_objects());
            let write = async {
                sleep(seconds(5)).await;
                create(&cluster, "late").await;
            };
            let read = async {
                loop {
                    match applied.next().await.expect("it does not end") {
                        Ok(map) if map.name_any() == "late" => return,
                        Ok(_) | Err(_) => {}
                    }
                }
            };
            let both = timeout(seconds(600), async { tokio::join!(write, read) });
            assert!(both.await.is_ok(), "{fault}: {:#?}", cluster.trace().lines());
        });
    }
}

#[test]
fn a_reflector_mirrors_the_server_through_a_restart() {
    world(3).run(|cluster| async move {
        let (store, writer) = reflector::store();
        let events = watcher(maps(&cluster, "reflector"), watcher::Config::default());
        let stream = reflector(writer, events.default_backoff()).touched_objects();
        let mirror = tokio::spawn(stream.for_each(|_| async {}));
        create(&cluster, "a").await;
        create(&cluster, "b").await;
        store.wait_until_ready().await.expect("it lists");
        cluster
            .outages()
            .restart(Duration::from_secs(3), Duration::from_secs(2));
        sleep(Duration::from_secs(4)).await;
        touch(&cluster, "a", "2").await;
        delete(&cluster, "b").await;
        sleep(Duration::from_secs(60)).await;
        let a = store.get(&ObjectRef::new("a").within("default")).expect("a is there");
        assert_eq!(a.data.as_ref().and_then(|data| data.get("key")), Some(&"2".to_owned()));
        assert_eq!(store.get(&ObjectRef::new("b").within("default")), None);
        mirror.abort();
    });
}

fn site(name: &str) -> Site {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let spec = SiteSpec {
        host: format!("{name}.example.com"),
        replicas: 2,
    };
    Site {
        metadata,
        spec,
        status: None,
    }
}

async fn started(cluster: &Cluster) -> aplomb_simulation::Component {
    install_crd(&cluster.client("admin")).await;
    cluster.start("operator", |process| async move {
        let operator = Operator {
            client: process.client(),
            resync: Duration::from_secs(300),
        };
        let (controller, _) = operator.controller();
        operator.run(controller).await;
    })
}

#[test]
fn a_controller_reconciles_and_repairs_what_it_owns() {
    world(4).run(|cluster| async move {
        let _operator = started(&cluster).await;
        let sites: Api<Site> = Api::namespaced(cluster.client("user"), "default");
        sites
            .create(&PostParams::default(), &site("shop"))
            .await
            .expect("created");
        sleep(Duration::from_secs(5)).await;
        let status = sites.get("shop").await.expect("there").status.expect("reconciled");
        assert_eq!(status.observed_generation, Some(1));
        let before = maps(&cluster, "user").get("shop").await.expect("the child is there");
        delete(&cluster, "shop").await;
        sleep(Duration::from_secs(5)).await;
        let after = maps(&cluster, "user").get("shop").await.expect("the child is back");
        assert_ne!(before.metadata.uid, after.metadata.uid);
    });
}

#[test]
fn a_finalizer_is_set_first_and_removed_after_cleanup() {
    world(5).run(|cluster| async move {
        let _operator = started(&cluster).await;
        let sites: Api<Site> = Api::namespaced(cluster.client("user"), "default");
        sites
            .create(&PostParams::default(), &site("shop"))
            .await
            .expect("created");
        sleep(Duration::from_secs(5)).await;
        let shop = sites.get("shop").await.expect("there");
        assert_eq!(shop.finalizers(), [FINALIZER]);
        sites
            .delete("shop", &DeleteParams::default())
            .await
            .expect("deletion begins");
        sleep(Duration::from_secs(5)).await;
        assert_eq!(sites.list(&ListParams::default()).await.expect("a list").items.len(), 0);
        let children = maps(&cluster, "user")
            .list(&ListParams::default())
            .await
            .expect("a list");
        let left: Vec<String> = children.items.iter().map(ResourceExt::name_any).collect();
        assert!(
            !left.contains(&"shop".to_owned()),
            "the garbage collector took the child: {left:?}"
        );
    });
}

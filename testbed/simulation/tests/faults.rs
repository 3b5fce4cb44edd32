//! The fault layer in front of the box, and in front of any other client.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]

use std::time::Duration;

use aplomb_apiserver::call::Verb;
use aplomb_simulation::faults::{Fault, Faults, Match, Rule, Stale, StaleReads};
use aplomb_simulation::trace::Trace;
use aplomb_simulation::{Cluster, Simulation};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

fn maps(cluster: &Cluster, identity: &str) -> Api<ConfigMap> {
    Api::namespaced(cluster.client(identity), "default")
}

async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    api.create(&PostParams::default(), &map).await.unwrap()
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().and_then(|version| version.parse().ok()).unwrap()
}

fn in_world<F: Future<Output = ()>>(scenario: impl FnOnce(Cluster) -> F + Send + 'static) {
    Simulation::new(1).interpose(aplomb_virtual_time::install).run(scenario);
}

#[test]
fn a_rival_makes_the_server_itself_refuse_a_stale_write() {
    in_world(|cluster| async move {
        let maps = maps(&cluster, "user");
        let map = create(&maps, "contested").await;
        let updates = Match::writes().verb(Verb::Update);
        cluster.faults("user").add(Rule::new(Fault::Rival).on(updates).first(3));
        for _ in 0..3 {
            let refused = maps
                .replace("contested", &PostParams::default(), &map)
                .await
                .unwrap_err();
            assert!(
                refused.to_string().contains("the object has been modified"),
                "{refused}"
            );
        }
        let latest = maps.get("contested").await.unwrap();
        assert_eq!(latest.annotations()["rival.example.com/turn"], "3");
        maps.replace("contested", &PostParams::default(), &latest)
            .await
            .unwrap();
    });
}

#[test]
fn a_committed_write_whose_answer_is_lost_has_happened() {
    in_world(|cluster| async move {
        let creates = Match::any().verb(Verb::Create);
        let rule = Rule::new(Fault::Reset { committed: true }).on(creates).once();
        cluster.faults("user").add(rule);
        let maps = maps(&cluster, "user");
        let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "lost" } })).unwrap();
        assert!(maps.create(&PostParams::default(), &map).await.is_err());
        let again = maps.create(&PostParams::default(), &map).await.unwrap_err();
        assert!(again.to_string().contains("already exists"), "{again}");
    });
}

/// The state before a change and a deletion, and a client whose server has seen neither.
async fn old_view(cluster: &Cluster, reads: StaleReads) -> u64 {
    let user = maps(cluster, "user");
    create(&user, "kept").await;
    let revision = version(&create(&user, "gone").await);
    let change = json!({ "data": { "key": "new" } });
    user.patch("kept", &PatchParams::default(), &Patch::Merge(&change))
        .await
        .unwrap();
    user.delete("gone", &DeleteParams::default()).await.unwrap();
    let stale = Stale {
        revision,
        until: Some(Duration::from_secs(60)),
        reads,
    };
    cluster.faults("operator").add(Rule::new(Fault::Stale(stale)));
    revision
}

#[test]
fn a_stale_server_shows_the_past_and_writes_to_the_present() {
    in_world(|cluster| async move {
        old_view(&cluster, StaleReads::All).await;
        let operator = maps(&cluster, "operator");
        assert_eq!(operator.get("kept").await.unwrap().data, None);
        let names = operator.list(&ListParams::default()).await.unwrap();
        let names: Vec<String> = names.items.iter().map(ResourceExt::name_any).collect();
        assert!(names.contains(&"gone".to_owned()), "{names:?}");
        let old = operator.get("kept").await.unwrap();
        let refused = operator
            .replace("kept", &PostParams::default(), &old)
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("the object has been modified"),
            "{refused}"
        );
    });
}

#[test]
fn a_stale_cache_answers_consistent_reads_truthfully() {
    in_world(|cluster| async move {
        old_view(&cluster, StaleReads::CacheOnly).await;
        let operator = maps(&cluster, "operator");
        assert!(operator.get("kept").await.unwrap().data.is_some());
        let cached = ListParams::default().match_any();
        let cached = operator.list(&cached).await.unwrap();
        assert!(cached.items.iter().any(|map| map.name_any() == "gone"));
    });
}

#[test]
fn a_stale_watch_catches_up_when_its_time_has_come() {
    in_world(|cluster| async move {
        let revision = old_view(&cluster, StaleReads::All).await;
        let operator = maps(&cluster, "operator");
        let params = WatchParams::default();
        let events = operator.watch(&params, &revision.to_string()).await.unwrap();
        let mut events = std::pin::pin!(events);
        let first = timeout(Duration::from_secs(600), events.next()).await.unwrap();
        assert_eq!(cluster.trace().elapsed().as_secs(), 60);
        assert!(matches!(first.unwrap().unwrap(), WatchEvent::Modified(map) if map.name_any() == "kept"));
        assert!(matches!(events.next().await.unwrap().unwrap(), WatchEvent::Deleted(_)));
    });
}

#[test]
fn any_client_can_be_wrapped() {
    in_world(|cluster| async move {
        let trace = Trace::new();
        let faults = Faults::new("wrapped", &trace);
        faults.add(Rule::new(Fault::ServiceUnavailable).first(2));
        let client = faults.client(&cluster.client("user"));
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        create(&maps, "a").await;
        assert_eq!(
            trace.count(|line| line.contains("wrapped fault 503 create configmaps")),
            2
        );
    });
}

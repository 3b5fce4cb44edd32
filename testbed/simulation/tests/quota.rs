//! Quotas as a client meets them: charged before anything is stored, given back when it goes, and
//! never exceeded, however many ask at once.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]

use std::fmt::Debug;
use std::time::Duration;

use aplomb_apiserver::ApiServer;
use aplomb_apiserver::call::{Call, Verb};
use aplomb_controllers::{Controllers, Running};
use aplomb_simulation::{Cluster, Simulation};
use futures::executor::block_on;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

const A_WHILE: Duration = Duration::from_secs(1);

fn in_a_cluster<F: Future<Output = ()> + Send + 'static>(story: impl FnOnce(Cluster) -> F + Send + 'static) {
    let delay = Duration::ZERO..Duration::from_millis(50);
    let world = Simulation::new(1).actors(Controllers::none().resource_quotas(delay));
    world.interpose(aplomb_virtual_time::install).run(story);
}

fn api<K>(cluster: &Cluster) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    Api::default_namespaced(cluster.client("user"))
}

/// Creates an object; the message of a refusal otherwise.
async fn create<K>(cluster: &Cluster, object: Value, dry_run: bool) -> Result<(), String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    match api::<K>(cluster).create(&params, &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(other) => panic!("{other}"),
    }
}

async fn limit(cluster: &Cluster, hard: Value) {
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": hard } });
    create::<ResourceQuota>(cluster, quota, false).await.unwrap();
    sleep(A_WHILE).await;
}

async fn used(cluster: &Cluster) -> Value {
    let quota = api::<ResourceQuota>(cluster).get("q").await.unwrap();
    serde_json::to_value(quota.status.unwrap().used).unwrap()
}

fn map(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

fn pod(name: &str) -> Value {
    let container = json!({ "name": "a", "image": "registry.example.com/a:1",
        "resources": { "requests": { "cpu": "500m" } } });
    json!({ "metadata": { "name": name }, "spec": { "containers": [container] } })
}

#[test]
fn a_quota_is_charged_refuses_and_gets_back() {
    in_a_cluster(|cluster| async move {
        create::<ConfigMap>(&cluster, map("before"), false).await.unwrap();
        limit(&cluster, json!({ "configmaps": "2" })).await;
        assert_eq!(used(&cluster).await, json!({ "configmaps": "1" }));
        create::<ConfigMap>(&cluster, map("tried"), true).await.unwrap();
        assert_eq!(used(&cluster).await, json!({ "configmaps": "1" }));
        create::<ConfigMap>(&cluster, map("fits"), false).await.unwrap();
        assert_eq!(used(&cluster).await, json!({ "configmaps": "2" }));
        let why = "configmaps \"more\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2";
        let refused = create::<ConfigMap>(&cluster, map("more"), false).await;
        assert_eq!(refused, Err(why.to_owned()));
        let refused = create::<ConfigMap>(&cluster, map("more"), true).await;
        assert_eq!(refused, Err(why.to_owned()));
        let maps = api::<ConfigMap>(&cluster);
        maps.delete("before", &DeleteParams::default()).await.unwrap();
        sleep(A_WHILE).await;
        assert_eq!(used(&cluster).await, json!({ "configmaps": "1" }));
        create::<ConfigMap>(&cluster, map("more"), false).await.unwrap();
    });
}

#[test]
fn a_pod_that_ends_gives_back_what_it_computed_with() {
    in_a_cluster(|cluster| async move {
        limit(&cluster, json!({ "pods": "1", "cpu": "1", "count/pods": "9" })).await;
        create::<Pod>(&cluster, pod("first"), false).await.unwrap();
        let full = json!({ "count/pods": "1", "cpu": "500m", "pods": "1" });
        assert_eq!(used(&cluster).await, full);
        assert!(create::<Pod>(&cluster, pod("second"), false).await.is_err());
        let ended = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
        let pods = api::<Pod>(&cluster);
        let params = PatchParams::default();
        pods.patch_status("first", &params, &ended).await.unwrap();
        sleep(A_WHILE).await;
        let left = json!({ "count/pods": "1", "cpu": "0", "pods": "0" });
        assert_eq!(used(&cluster).await, left);
        create::<Pod>(&cluster, pod("second"), false).await.unwrap();
    });
}

#[test]
fn a_service_that_becomes_more_asks_again() {
    in_a_cluster(|cluster| async move {
        limit(&cluster, json!({ "services.loadbalancers": "1" })).await;
        for name in ["a", "b"] {
            let service = json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
            create::<Service>(&cluster, service, false).await.unwrap();
        }
        let services = api::<Service>(&cluster);
        let balance = Patch::Merge(json!({ "spec": { "type": "LoadBalancer" } }));
        let params = PatchParams::default();
        services.patch("a", &params, &balance).await.unwrap();
        assert_eq!(used(&cluster).await, json!({ "services.loadbalancers": "1" }));
        assert!(services.patch("b", &params, &balance).await.is_err());
        let back = Patch::Merge(json!({ "spec": { "type": "ClusterIP" } }));
        services.patch("a", &params, &back).await.unwrap();
        sleep(A_WHILE).await;
        services.patch("b", &params, &balance).await.unwrap();
    });
}

#[test]
fn a_write_that_was_charged_and_refused_is_counted_away() {
    in_a_cluster(|cluster| async move {
        limit(&cluster, json!({ "configmaps": "5" })).await;
        create::<ConfigMap>(&cluster, map("a"), false).await.unwrap();
        assert!(create::<ConfigMap>(&cluster, map("a"), false).await.is_err());
        assert_eq!(used(&cluster).await, json!({ "configmaps": "2" }));
        sleep(Duration::from_mins(6)).await;
        assert_eq!(used(&cluster).await, json!({ "configmaps": "1" }));
    });
}

#[test]
fn nothing_is_written_about_a_quota_while_nothing_changes() {
    in_a_cluster(|cluster| async move {
        limit(&cluster, json!({ "configmaps": "5" })).await;
        let quotas = api::<ResourceQuota>(&cluster);
        let version = quotas.get("q").await.unwrap().metadata.resource_version;
        sleep(Duration::from_hours(1)).await;
        let later = quotas.get("q").await.unwrap().metadata.resource_version;
        assert_eq!(version, later);
    });
}

/// A server with a quota of five ConfigMaps, asked from many threads.
struct Crowded {
    server: ApiServer,
    _actors: Running,
}

impl Crowded {
    async fn start() -> Self {
        let server = ApiServer::builder().build();
        let at_once = Duration::ZERO..Duration::ZERO;
        let actors = Controllers::none().resource_quotas(at_once).start(&server);
        let crowded = Self {
            server,
            _actors: actors,
        };
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "q" }, "spec": { "hard": { "configmaps": "5" } } });
        let call = crowded.call(Verb::Create, "resourcequotas", "q", &quota);
        crowded.server.call(call).await.unwrap();
        crowded.until_used("0").await;
        crowded
    }

    fn call(&self, verb: Verb, plural: &str, name: &str, body: &Value) -> Call {
        let resource = self.server.resource("", "v1", plural).unwrap();
        let mut call = Call::new(verb, resource).namespace("default").body(body);
        call.name = (verb != Verb::Create).then(|| name.to_owned());
        call
    }

    fn creation(&self, name: &str) -> Call {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        self.call(Verb::Create, "configmaps", name, &map)
    }

    fn deletion(&self, name: &str) -> Call {
        self.call(Verb::Delete, "configmaps", name, &Value::Null)
    }

    async fn until_used(&self, count: &str) {
        let used = || {
            let quota = self.server.get("", "resourcequotas", "default", "q");
            quota.unwrap()["status"]["used"]["configmaps"].clone()
        };
        while used() != count {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn of_fifty_that_ask_at_once_five_are_served() {
    let crowded = Crowded::start().await;
    for round in 0..20 {
        let mut asking = JoinSet::new();
        for number in 0..50 {
            let (server, name) = (crowded.server.clone(), format!("m-{round}-{number}"));
            let call = crowded.creation(&name);
            asking.spawn_blocking(move || block_on(server.call(call)).is_ok().then_some(name));
        }
        let made: Vec<String> = asking.join_all().await.into_iter().flatten().collect();
        assert_eq!(made.len(), 5, "round {round}");
        for name in made {
            crowded.server.call(crowded.deletion(&name)).await.unwrap();
        }
        crowded.until_used("0").await;
    }
}

/// The controller counts while objects come and go, and never one that is charged and not yet there.
#[tokio::test]
async fn there_are_never_more_than_five_while_others_give_back() {
    let crowded = Crowded::start().await;
    let mut working = JoinSet::new();
    for worker in 0..16 {
        let server = crowded.server.clone();
        let name = format!("m-{worker}");
        let (creation, deletion) = (crowded.creation(&name), crowded.deletion(&name));
        working.spawn_blocking(move || {
            let mut most = 0;
            for _ in 0..100 {
                if block_on(server.call(creation.clone())).is_ok() {
                    most = most.max(server.list("", "configmaps").len());
                    block_on(server.call(deletion.clone())).unwrap();
                }
            }
            most
        });
    }
    let most = working.join_all().await.into_iter().max();
    assert!(matches!(most, Some(1..=5)), "{most:?}");
}

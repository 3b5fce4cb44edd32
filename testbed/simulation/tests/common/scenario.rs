//! Nine and a half minutes in the life of an operator: users who create, edit and delete, an API server that
//! has a bad day, a crash; then the faults stop and everything has to come right.

use std::time::Duration;

use aplomb_simulation::faults::Sampler;
use aplomb_simulation::{Cluster, Component, Crash, CrashPoint, Run, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::reflector::Store;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use super::operator::{Operator, Site, SiteSpec};

pub const SITES: u64 = 10;
const BAD_DAY: Duration = Duration::from_secs(240);
/// Longer than a watcher needs to notice that its watch is dead.
const RECOVERY: Duration = Duration::from_secs(330);

/// A dependence on something that is not the seed, put in on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Acts on the objects of a reflector in the order its hash map has them.
    HashOrder,
}

/// Runs the scenario once.
pub fn run(seed: u64, plant: Option<Plant>) -> Run<Outcome> {
    Simulation::new(seed)
        .interpose(aplomb_virtual_time::install)
        .run(move |cluster| scenario(cluster, plant))
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests in the trace.
    pub requests: usize,
    /// Faults in the trace.
    pub faults: usize,
    /// Sites whose status or child is not what the spec says.
    pub wrong: Vec<String>,
}

async fn scenario(cluster: Cluster, plant: Option<Plant>) -> Outcome {
    let admin = cluster.client("admin");
    install_crd(&admin).await;
    let mut rng = fastrand::Rng::with_seed(cluster.seed());
    cluster.faults("operator").sample(Sampler::bad_day(rng.u64(..), 0.15));
    let operator = cluster.start("operator", move |process| async move {
        let operator = Operator {
            client: process.client(),
            resync: Duration::from_secs(20),
        };
        let (controller, store) = operator.controller();
        process.spawn(audit(operator.client.clone(), store, plant));
        operator.run(controller).await;
    });
    operator.crash_at(Crash {
        effect: rng.u64(1..60),
        point: CrashPoint::BeforeSend,
    });
    operator.crash_at(Crash {
        effect: rng.u64(60..120),
        point: CrashPoint::AfterCommit,
    });
    let restart = cluster.trace().instant(Duration::from_secs(rng.u64(60..220)));
    cluster
        .outages()
        .restart_at(restart, Duration::from_secs(2), Duration::from_secs(1));
    let story = async {
        tokio::join!(users(&admin, &mut rng), sleep(BAD_DAY));
        cluster.faults("operator").clear();
        sleep(RECOVERY).await;
    };
    tokio::select! {
        biased;
        () = story => {}
        () = liveness_probe(&cluster, &operator) => {}
    }
    Outcome {
        requests: cluster.trace().count(|line| line.contains(" request ")),
        faults: cluster.trace().count(|line| line.contains(" fault ")),
        wrong: wrong(&admin).await,
    }
}

pub async fn install_crd(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = Site::crd();
    crds.create(&PostParams::default(), &crd)
        .await
        .expect("the CRD is valid");
    let name = crd.name_any();
    let established = await_condition(crds, &name, conditions::is_crd_established());
    established.await.expect("it is established");
}

/// Create, edit, delete, at times drawn from the seed. Users try again when they are refused.
async fn users(client: &Client, rng: &mut fastrand::Rng) {
    let sites: Api<Site> = Api::namespaced(client.clone(), "default");
    for number in 0..SITES {
        let spec = SiteSpec {
            host: format!("{number}.example.com"),
            replicas: 1,
        };
        let metadata = ObjectMeta {
            name: Some(format!("site-{number}")),
            ..ObjectMeta::default()
        };
        let site = Site {
            metadata,
            spec,
            status: None,
        };
        while sites.create(&PostParams::default(), &site).await.is_err() {
            sleep(Duration::from_secs(3)).await;
        }
        sleep(Duration::from_millis(rng.u64(0..4000))).await;
    }
    for _ in 0..30 {
        let name = format!("site-{}", rng.u64(..SITES));
        let replicas = rng.i32(1..9);
        let edit = json!({ "spec": { "replicas": replicas } });
        // Refused while the server restarts, and once the site is gone: the next edit will do.
        drop(sites.patch(&name, &PatchParams::default(), &Patch::Merge(&edit)).await);
        if rng.u64(..15) == 0 {
            drop(sites.delete(&name, &DeleteParams::default()).await);
        }
        sleep(Duration::from_millis(rng.u64(0..9000))).await;
    }
}

/// Restarts an operator that has fallen silent, as a kubelet would. It can: the `Controller` of
/// kube 5 stops for good when the watch of an owned kind fails in the very moment in which the list
/// of its own kind arrives.
async fn liveness_probe(cluster: &Cluster, operator: &Component) {
    let mut before = 0;
    loop {
        sleep(Duration::from_secs(45)).await;
        let now = cluster.trace().count(|line| line.contains(" operator request "));
        if now == before {
            operator.crash();
        }
        before = now;
    }
}

/// Looks at every site once a minute, in the order of their names unless something is planted.
async fn audit(client: Client, store: Store<Site>, plant: Option<Plant>) {
    loop {
        sleep(Duration::from_secs(60)).await;
        let mut sites = store.state();
        if plant != Some(Plant::HashOrder) {
            sites.sort_by_key(|site| site.name_any());
        }
        let api: Api<Site> = Api::namespaced(client.clone(), "default");
        for site in sites {
            drop(api.get_opt(&site.name_any()).await);
        }
    }
}

async fn wrong(client: &Client) -> Vec<String> {
    let sites: Api<Site> = Api::namespaced(client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let sites = sites.list(&Default::default()).await.expect("no faults any more").items;
    let maps = maps.list(&Default::default()).await.expect("no faults any more").items;
    let mut wrong = Vec::new();
    for site in &sites {
        let name = site.name_any();
        let observed = site.status.as_ref().and_then(|status| status.observed_generation);
        let child = maps.iter().find(|map| map.name_any() == name);
        let replicas = child.and_then(|map| map.data.as_ref()?.get("replicas").cloned());
        let right = observed == site.metadata.generation
            && replicas == Some(site.spec.replicas.to_string())
            && site.metadata.deletion_timestamp.is_none();
        if !right {
            wrong.push(format!("{name} observed {observed:?} child {replicas:?}"));
        }
    }
    let owned = maps.iter().filter(|map| map.name_any().starts_with("site-")).count();
    if owned != sites.len() {
        wrong.push(format!("{owned} children of {} sites", sites.len()));
    }
    wrong
}

//! What a namespace is furnished with, as a client meets it.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]

use std::time::Duration;

use aplomb_controllers::Controllers;
use aplomb_simulation::{Cluster, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::sleep;

const A_WHILE: Duration = Duration::from_secs(1);
const ROOT_CA: &str = "kube-root-ca.crt";

fn in_a_cluster<F: Future<Output = ()> + Send + 'static>(story: impl FnOnce(Cluster) -> F + Send + 'static) {
    let world = Simulation::new(1).actors(Controllers::cluster());
    world.interpose(aplomb_virtual_time::install).run(story);
}

fn maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client("user"), "home")
}

fn accounts(cluster: &Cluster) -> Api<ServiceAccount> {
    Api::namespaced(cluster.client("user"), "home")
}

async fn home(cluster: &Cluster) {
    let namespaces: Api<Namespace> = Api::all(cluster.client("user"));
    let home = serde_json::from_value(json!({ "metadata": { "name": "home" } })).unwrap();
    namespaces.create(&PostParams::default(), &home).await.unwrap();
    sleep(A_WHILE).await;
}

#[test]
fn a_new_namespace_has_an_account_and_the_authority() {
    in_a_cluster(|cluster| async move {
        home(&cluster).await;
        accounts(&cluster).get("default").await.unwrap();
        let map = maps(&cluster).get(ROOT_CA).await.unwrap();
        assert!(map.data.unwrap().contains_key("ca.crt"));
    });
}

#[test]
fn both_come_back_when_deleted() {
    in_a_cluster(|cluster| async move {
        home(&cluster).await;
        let params = DeleteParams::default();
        accounts(&cluster).delete("default", &params).await.unwrap();
        maps(&cluster).delete(ROOT_CA, &params).await.unwrap();
        sleep(A_WHILE).await;
        accounts(&cluster).get("default").await.unwrap();
        maps(&cluster).get(ROOT_CA).await.unwrap();
    });
}

#[test]
fn an_edited_authority_is_restored() {
    in_a_cluster(|cluster| async move {
        home(&cluster).await;
        let edit = Patch::Merge(json!({ "data": { "ca.crt": "mine", "more": "mine" } }));
        let maps = maps(&cluster);
        maps.patch(ROOT_CA, &PatchParams::default(), &edit).await.unwrap();
        sleep(A_WHILE).await;
        let data = maps.get(ROOT_CA).await.unwrap().data.unwrap();
        assert_eq!(data.into_iter().collect::<Vec<_>>(), [("ca.crt".into(), String::new())]);
    });
}

#[test]
fn a_namespace_that_goes_is_not_furnished_again() {
    in_a_cluster(|cluster| async move {
        home(&cluster).await;
        let namespaces: Api<Namespace> = Api::all(cluster.client("user"));
        namespaces.delete("home", &DeleteParams::default()).await.unwrap();
        sleep(A_WHILE).await;
        assert!(namespaces.get_opt("home").await.unwrap().is_none());
    });
}

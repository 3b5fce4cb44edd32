//! The actors as an operator meets them, through the API.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]

use std::time::Duration;

use aplomb_controllers::Controllers;
use aplomb_simulation::{Cluster, Simulation};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

const A_WHILE: Duration = Duration::from_secs(5);

fn maps(cluster: &Cluster, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(cluster.client("user"), namespace)
}

fn secrets(cluster: &Cluster) -> Api<Secret> {
    Api::namespaced(cluster.client("user"), "default")
}

async fn owner(cluster: &Cluster, name: &str) -> OwnerReference {
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    let map = maps(cluster, "default")
        .create(&PostParams::default(), &map)
        .await
        .unwrap();
    let reference = map.owner_ref(&()).unwrap();
    OwnerReference {
        block_owner_deletion: Some(true),
        ..reference
    }
}

async fn child(cluster: &Cluster, namespace: &str, name: &str, owners: &[OwnerReference]) {
    let metadata = json!({ "name": name, "ownerReferences": owners });
    let secret: Secret = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    let api: Api<Secret> = Api::namespaced(cluster.client("user"), namespace);
    api.create(&PostParams::default(), &secret).await.unwrap();
}

async fn exists(cluster: &Cluster, name: &str) -> bool {
    secrets(cluster).get_opt(name).await.unwrap().is_some()
}

async fn delete_owner(cluster: &Cluster, name: &str, policy: PropagationPolicy) {
    let params = DeleteParams {
        propagation_policy: Some(policy),
        ..DeleteParams::default()
    };
    maps(cluster, "default").delete(name, &params).await.unwrap();
}

fn in_world<F: Future<Output = ()>>(scenario: impl FnOnce(Cluster) -> F + Send + 'static) {
    Simulation::new(1).interpose(aplomb_virtual_time::install).run(scenario);
}

#[test]
fn children_go_with_their_owner() {
    in_world(|cluster| async move {
        let reference = owner(&cluster, "owner").await;
        child(&cluster, "default", "child", &[reference]).await;
        sleep(A_WHILE).await;
        assert!(exists(&cluster, "child").await);
        delete_owner(&cluster, "owner", PropagationPolicy::Background).await;
        sleep(A_WHILE).await;
        assert!(!exists(&cluster, "child").await);
    });
}

#[test]
fn children_of_nobody_go_at_once() {
    in_world(|cluster| async move {
        let real = owner(&cluster, "owner").await;
        let wrong_uid = OwnerReference {
            uid: "0-0-0".into(),
            ..real.clone()
        };
        let never = OwnerReference {
            name: "never".into(),
            ..real.clone()
        };
        child(&cluster, "default", "wrong-uid", &[wrong_uid]).await;
        child(&cluster, "default", "never", &[never]).await;
        child(&cluster, "kube-system", "elsewhere", &[real]).await;
        sleep(A_WHILE).await;
        assert!(!exists(&cluster, "wrong-uid").await);
        assert!(!exists(&cluster, "never").await);
        let other: Api<Secret> = Api::namespaced(cluster.client("user"), "kube-system");
        assert!(other.get_opt("elsewhere").await.unwrap().is_none());
    });
}

#[test]
fn with_one_of_two_owners_gone_the_reference_goes() {
    in_world(|cluster| async move {
        let owners = [owner(&cluster, "kept").await, owner(&cluster, "gone").await];
        child(&cluster, "default", "child", &owners).await;
        delete_owner(&cluster, "gone", PropagationPolicy::Background).await;
        sleep(A_WHILE).await;
        let child = secrets(&cluster).get("child").await.unwrap();
        assert_eq!(child.owner_references(), &owners[..1]);
    });
}

#[test]
fn a_foreground_deletion_waits_for_children_with_finalizers() {
    in_world(|cluster| async move {
        let reference = owner(&cluster, "owner").await;
        child(&cluster, "default", "child", &[reference]).await;
        let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        let params = PatchParams::default();
        secrets(&cluster)
            .patch("child", &params, &Patch::Merge(&hold))
            .await
            .unwrap();
        delete_owner(&cluster, "owner", PropagationPolicy::Foreground).await;
        sleep(A_WHILE).await;
        let waiting = maps(&cluster, "default").get("owner").await.unwrap();
        assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);
        assert!(
            secrets(&cluster)
                .get("child")
                .await
                .unwrap()
                .metadata
                .deletion_timestamp
                .is_some()
        );
        let release = json!({ "metadata": { "finalizers": null } });
        secrets(&cluster)
            .patch("child", &params, &Patch::Merge(&release))
            .await
            .unwrap();
        sleep(A_WHILE).await;
        assert!(maps(&cluster, "default").get_opt("owner").await.unwrap().is_none());
    });
}

#[test]
fn an_orphaning_deletion_leaves_children_without_the_reference() {
    in_world(|cluster| async move {
        let reference = owner(&cluster, "owner").await;
        child(&cluster, "default", "child", &[reference]).await;
        delete_owner(&cluster, "owner", PropagationPolicy::Orphan).await;
        sleep(A_WHILE).await;
        assert!(maps(&cluster, "default").get_opt("owner").await.unwrap().is_none());
        let child = secrets(&cluster).get("child").await.unwrap();
        assert_eq!(child.owner_references(), []);
    });
}

#[test]
fn a_namespace_is_emptied_and_waits_for_finalizers() {
    in_world(|cluster| async move {
        let namespaces: Api<Namespace> = Api::all(cluster.client("user"));
        let namespace = serde_json::from_value(json!({ "metadata": { "name": "team" } })).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
        let held: ConfigMap = serde_json::from_value(held).unwrap();
        maps(&cluster, "team")
            .create(&PostParams::default(), &held)
            .await
            .unwrap();
        child(&cluster, "team", "plain", &[]).await;
        namespaces.delete("team", &DeleteParams::default()).await.unwrap();
        sleep(A_WHILE).await;
        let status = namespaces.get("team").await.unwrap().status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Terminating"));
        let conditions = status.conditions.unwrap();
        let remaining = conditions
            .iter()
            .find(|it| it.type_ == "NamespaceContentRemaining")
            .unwrap();
        assert_eq!(remaining.status, "True");
        let message = "Some resources are remaining: configmaps. has 1 resource instances";
        assert_eq!(remaining.message.as_deref(), Some(message));
        let late: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "x" } })).unwrap();
        let refused = maps(&cluster, "team").create(&PostParams::default(), &late).await;
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .contains("because it is being terminated")
        );
        let release = json!({ "metadata": { "finalizers": null } });
        let params = PatchParams::default();
        maps(&cluster, "team")
            .patch("held", &params, &Patch::Merge(&release))
            .await
            .unwrap();
        sleep(A_WHILE).await;
        assert!(namespaces.get_opt("team").await.unwrap().is_none());
    });
}

#[test]
fn a_deployment_becomes_available_after_each_change() {
    let delay = Duration::from_secs(2)..Duration::from_secs(4);
    let world = Simulation::new(1).actors(Controllers::default().deployment_readiness(delay));
    world.interpose(aplomb_virtual_time::install).run(|cluster| async move {
        let deployments: Api<Deployment> = Api::namespaced(cluster.client("user"), "default");
        let labels = json!({ "app": "web" });
        let container = json!({ "name": "web", "image": "example.com/web:1" });
        let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
        let spec = json!({ "replicas": 3, "selector": { "matchLabels": labels }, "template": template });
        let web = serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec }));
        deployments.create(&PostParams::default(), &web.unwrap()).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let early = deployments.get("web").await.unwrap().status.unwrap_or_default();
        assert_eq!(early.available_replicas, None);
        sleep(A_WHILE).await;
        let status = deployments.get("web").await.unwrap().status.unwrap();
        assert_eq!(
            (status.available_replicas, status.observed_generation),
            (Some(3), Some(1))
        );
        let scale = json!({ "spec": { "replicas": 5 } });
        deployments
            .patch("web", &PatchParams::default(), &Patch::Merge(&scale))
            .await
            .unwrap();
        sleep(A_WHILE).await;
        let status = deployments.get("web").await.unwrap().status.unwrap();
        assert_eq!((status.ready_replicas, status.observed_generation), (Some(5), Some(2)));
    });
}

#[test]
fn nodes_beat() {
    let world = Simulation::new(1).actors(Controllers::default().node_heartbeats(Duration::from_secs(10)));
    world.interpose(aplomb_virtual_time::install).run(|cluster| async move {
        let nodes: Api<Node> = Api::all(cluster.client("user"));
        let node = serde_json::from_value(json!({ "metadata": { "name": "n1" } })).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        sleep(Duration::from_secs(11)).await;
        let leases: Api<Lease> = Api::namespaced(cluster.client("user"), "kube-node-lease");
        let first = leases.get("n1").await.unwrap().spec.unwrap().renew_time.unwrap();
        sleep(Duration::from_secs(20)).await;
        let later = leases.get("n1").await.unwrap().spec.unwrap().renew_time.unwrap();
        assert_eq!((later.0 - first.0).get_seconds(), 20);
        let conditions = nodes.get("n1").await.unwrap().status.unwrap().conditions.unwrap();
        assert_eq!(
            (conditions[0].type_.as_str(), conditions[0].status.as_str()),
            ("Ready", "True")
        );
    });
}

#[test]
fn the_collector_does_not_touch_a_new_object_of_the_same_name() {
    let late = Duration::from_secs(30)..Duration::from_secs(31);
    let world = Simulation::new(1).actors(Controllers::default().garbage_collector(late));
    world.interpose(aplomb_virtual_time::install).run(|cluster| async move {
        let gone = owner(&cluster, "gone").await;
        child(&cluster, "default", "child", &[gone]).await;
        delete_owner(&cluster, "gone", PropagationPolicy::Background).await;
        let uid = secrets(&cluster).get("child").await.unwrap().uid();
        let preconditions = Some(Preconditions {
            uid,
            resource_version: None,
        });
        let params = DeleteParams {
            preconditions,
            ..DeleteParams::default()
        };
        secrets(&cluster).delete("child", &params).await.unwrap();
        child(&cluster, "default", "child", &[]).await;
        sleep(Duration::from_secs(90)).await;
        assert!(exists(&cluster, "child").await);
    });
}

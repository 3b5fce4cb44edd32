//! What the API server keeps by itself, as a client meets it.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]

use std::fmt::Debug;
use std::time::Duration;

use aplomb_controllers::Controllers;
use aplomb_simulation::{Cluster, Simulation};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::IPAddress;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

const A_WHILE: Duration = Duration::from_secs(1);

fn in_a_cluster<F: Future<Output = ()> + Send + 'static>(story: impl FnOnce(Cluster) -> F + Send + 'static) {
    let world = Simulation::new(1).actors(Controllers::none().upkeep());
    world.interpose(aplomb_virtual_time::install).run(story);
}

async fn create<K: Clone + Debug + DeserializeOwned + Serialize>(api: &Api<K>, object: Value) -> K {
    let object = serde_json::from_value(object).unwrap();
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    sleep(A_WHILE).await;
    made
}

#[test]
fn the_address_of_a_service_is_an_object_as_long_as_it_has_it() {
    in_a_cluster(|cluster| async move {
        let services: Api<Service> = Api::default_namespaced(cluster.client("user"));
        let addresses: Api<IPAddress> = Api::all(cluster.client("user"));
        let service = json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } });
        let service = create(&services, service).await;
        let address = service.spec.unwrap().cluster_ip.unwrap();
        let parent = addresses.get(&address).await.unwrap().spec;
        assert_eq!(parent.parent_ref.name, "web");
        let params = DeleteParams::default();
        services.delete("web", &params).await.unwrap();
        sleep(A_WHILE).await;
        assert!(addresses.get_opt(&address).await.unwrap().is_none());
    });
}

#[test]
fn the_address_of_a_service_that_went_unseen_goes_too() {
    in_a_cluster(|cluster| async move {
        let addresses: Api<IPAddress> = Api::all(cluster.client("user"));
        let labels = json!({ "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io" });
        let parent = json!({ "resource": "services", "namespace": "default", "name": "gone" });
        let left = json!({
            "metadata": { "name": "10.0.0.9", "labels": labels }, "spec": { "parentRef": parent },
        });
        let left: IPAddress = serde_json::from_value(left).unwrap();
        addresses.create(&PostParams::default(), &left).await.unwrap();
        // As after a start: everything that is there is looked at once.
        let _again = Controllers::none().upkeep().start(cluster.server());
        sleep(A_WHILE).await;
        assert!(addresses.get_opt("10.0.0.9").await.unwrap().is_none());
    });
}

#[test]
fn a_definition_is_registered_and_comes_back_when_it_is_not() {
    in_a_cluster(|cluster| async move {
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client("user"));
        let services: Api<APIService> = Api::all(cluster.client("user"));
        let schema = json!({ "openAPIV3Schema": { "type": "object" } });
        let definition = json!({ "metadata": { "name": "logs.example.com" }, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "logs", "kind": "Log" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        } });
        create(&definitions, definition).await;
        let params = DeleteParams::default();
        services.delete("v1.example.com", &params).await.unwrap();
        sleep(A_WHILE).await;
        services.get("v1.example.com").await.unwrap();
        definitions.delete("logs.example.com", &params).await.unwrap();
        sleep(A_WHILE).await;
        assert!(services.get_opt("v1.example.com").await.unwrap().is_none());
    });
}

#[test]
fn a_flow_schema_says_whether_its_level_is_there() {
    in_a_cluster(|cluster| async move {
        let schemas: Api<FlowSchema> = Api::all(cluster.client("user"));
        let levels: Api<PriorityLevelConfiguration> = Api::all(cluster.client("user"));
        let schema = json!({ "metadata": { "name": "mine" },
            "spec": { "priorityLevelConfiguration": { "name": "late" } } });
        create(&schemas, schema).await;
        assert_eq!(dangling(&schemas).await, "True");
        let level = json!({ "metadata": { "name": "late" }, "spec": { "type": "Limited",
            "limited": { "limitResponse": { "type": "Reject" } } } });
        create(&levels, level).await;
        assert_eq!(dangling(&schemas).await, "False");
    });
}

async fn dangling(schemas: &Api<FlowSchema>) -> String {
    let status = schemas.get("mine").await.unwrap().status.unwrap();
    let mut conditions = status.conditions.unwrap().into_iter();
    let found = conditions.find(|it| it.type_.as_deref() == Some("Dangling"));
    found.unwrap().status.unwrap()
}

#[test]
fn an_api_service_of_another_server_says_that_it_is_not_there() {
    in_a_cluster(|cluster| async move {
        let services: Api<APIService> = Api::all(cluster.client("user"));
        let service = json!({ "metadata": { "name": "v1.other.example.com" }, "spec": {
            "group": "other.example.com", "version": "v1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 1, "versionPriority": 1,
            "service": { "namespace": "default", "name": "none" },
        } });
        create(&services, service).await;
        let status = services.get("v1.other.example.com").await.unwrap().status;
        let conditions = status.unwrap().conditions.unwrap();
        let reasons: Vec<_> = conditions.into_iter().filter_map(|it| it.reason).collect();
        assert_eq!(reasons, ["ServiceNotFound"]);
    });
}

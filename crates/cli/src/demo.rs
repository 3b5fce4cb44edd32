//! `aplomb demo`: a newcomer's first look. Starts the box, applies samples, shows them, exits.
//!
//! It talks to the box over TLS with a kubeconfig, as any other client would.

use std::time::Duration;

use anyhow::{Context, ensure};
use aplomb_sim::ApiServer;
use aplomb_sim::http::{BoxConfig, start_with};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::conditions::{is_crd_established, is_deployment_completed};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::Value;

use crate::{boxed, table};

const SAMPLES: [&str; 3] = [
    include_str!("../../../deploy/samples/widget-crd.yaml"),
    include_str!("../../../deploy/samples/widget.yaml"),
    include_str!("../../../deploy/samples/web.yaml"),
];
const SHOWN: [(&str, &str); 3] = [
    (
        "customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ),
    (
        "widgets",
        "/apis/sample.example.com/v1/namespaces/default/widgets",
    ),
    (
        "deployments",
        "/apis/apps/v1/namespaces/default/deployments",
    ),
];
const PATIENCE: Duration = Duration::from_secs(20);
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub(crate) async fn run() -> anyhow::Result<()> {
    let server = ApiServer::builder().build();
    let rollout = Duration::from_millis(100)..Duration::from_millis(300);
    let _actors = boxed::controllers()
        .deployment_readiness(rollout)
        .start(&server);
    let running = start_with(server, BoxConfig::default()).await?;
    println!("ready {}\n", running.url());
    let client = connect(running.kubeconfig()).await?;
    for sample in SAMPLES {
        apply(&client, sample).await?;
    }
    wait_for_rollout(&client).await?;
    for (resource, path) in SHOWN {
        println!("\n$ kubectl get {resource}");
        print!("{}", show(&client, path).await?);
    }
    running.stop().await;
    Ok(())
}

async fn connect(kubeconfig: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn apply(client: &Client, sample: &str) -> anyhow::Result<()> {
    let object: DynamicObject = serde_saphyr::from_str(sample).context("a sample is not YAML")?;
    let types = object.types.clone().context("a sample has no kind")?;
    let gvk = kube::core::GroupVersionKind::try_from(&types)?;
    let (name, namespace) = (object.name_any(), object.namespace());
    let api: Api<DynamicObject> = match &namespace {
        Some(namespace) => {
            Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk))
        }
        None => Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk)),
    };
    api.patch(&name, &PatchParams::apply("demo"), &Patch::Apply(&object))
        .await?;
    println!("{}/{name} serverside-applied", types.kind.to_lowercase());
    if types.kind == "CustomResourceDefinition" {
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        in_time(await_condition(crds, &name, is_crd_established())).await?;
    }
    Ok(())
}

async fn wait_for_rollout(client: &Client) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    in_time(await_condition(
        deployments,
        "web",
        is_deployment_completed(),
    ))
    .await?;
    println!("deployment/web rolled out");
    Ok(())
}

async fn in_time<T>(
    wait: impl Future<Output = Result<T, kube::runtime::wait::Error>>,
) -> anyhow::Result<T> {
    let outcome = tokio::time::timeout(PATIENCE, wait).await;
    Ok(outcome.context("the box did not get there in 20 s")??)
}

async fn show(client: &Client, path: &str) -> anyhow::Result<String> {
    let request = http::Request::get(path)
        .header("Accept", TABLE)
        .body(Vec::new())?;
    let answer: Value = client.request(request).await?;
    ensure!(
        answer["kind"] == "Table",
        "the box answered {} instead of a Table",
        answer["kind"]
    );
    Ok(table::render(&answer))
}

//! A complete operator: each Page becomes a ConfigMap. `cargo run -p aplomb --example page` runs it on
//! the cluster of the current kubeconfig.

use std::sync::Arc;

use aplomb::{Action, Context, Controller, Engine, Predicate, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Page",
    namespaced,
    status = "PageStatus",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#
)]
pub struct PageSpec {
    pub title: String,
    #[serde(default)]
    pub text: String,
}

/// The runtime fills `conditions` and `observedGeneration`; the operator fills the rest.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageStatus {
    #[serde(default)]
    pub words: usize,
    pub observed_generation: Option<i64>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

async fn reconcile(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    if page.spec.title.is_empty() {
        let fix = "spec.title is empty: give the page a title";
        return Ok(Action::reject("NoTitle", fix));
    }
    let html = format!("<h1>{}</h1><p>{}</p>", page.spec.title, page.spec.text);
    cx.apply(ConfigMap {
        metadata: ObjectMeta {
            name: page.metadata.name.clone(),
            namespace: page.namespace(),
            ..ObjectMeta::default()
        },
        data: Some([("index.html".to_owned(), html)].into()),
        ..ConfigMap::default()
    })
    .await?;
    cx.status(json!({ "words": page.spec.text.split_whitespace().count() }));
    Ok(Action::Done)
}

/// The reconciled kind, and the children to watch for changes.
pub fn controller() -> Controller<Page> {
    Controller::new("page", reconcile).owns::<ConfigMap>(Predicate::always())
}

/// The operator, ready to run with any client.
pub fn operator(client: Client) -> Engine {
    Engine::new("pages.example.com", client).controller(controller())
}

/// Installs the kind it reconciles.
pub async fn install(client: &Client) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("pages.example.com").force();
    crds.patch(Page::crd_name(), &apply, &Patch::Apply(Page::crd())).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt::init();
    let client = aplomb::client(kube::Config::infer().await?)?;
    install(&client).await?;
    operator(client).run_until_signal().await?;
    Ok(())
}

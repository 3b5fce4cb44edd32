//! The cluster: the box behind TLS with a kubeconfig, and the CRDs of every kind.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use aplomb_api::gateway_api::DEFINITIONS;
use aplomb_apiserver::ApiServer;
use aplomb_apiserver::standalone::{Running, StandaloneConfig, start_with};
use aplomb_controllers::{self as controllers, Controllers};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, ResourceExt};
use tokio::time::timeout;

use super::SYSTEM_NAMESPACE;

const MANAGER: &str = "aplomb-demo";
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct DemoCluster {
    running: Running,
    _actors: controllers::Running,
}

impl DemoCluster {
    /// Starts one, and writes its kubeconfig.
    pub(super) async fn start(kubeconfig: &Path) -> Result<Self> {
        let server = ApiServer::builder().build();
        let prompt = Duration::ZERO..Duration::from_millis(50);
        let actors = Controllers::none()
            .garbage_collector(prompt.clone())
            .namespace_lifecycle(prompt)
            .start(&server);
        let config = StandaloneConfig {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..StandaloneConfig::default()
        };
        Ok(Self {
            running: start_with(server, config).await?,
            _actors: actors,
        })
    }

    /// A client like any other: over TLS, from the kubeconfig.
    pub(super) async fn client(&self) -> Result<Client> {
        let read = Kubeconfig::from_yaml(self.running.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(aplomb::client(config)?)
    }

    pub(super) async fn shut_down(self) {
        self.running.stop().await;
    }
}

/// Installs all CRDs and creates the operators' namespace.
pub(super) async fn install_definitions(client: &Client) -> Result<()> {
    let all: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut definitions = aplomb_api::definitions();
    for (name, text) in DEFINITIONS {
        definitions.push(serde_saphyr::from_str(text).context(name)?);
    }
    try_join_all(definitions.iter().map(|it| apply_definition(&all, it))).await?;
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(SYSTEM_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

async fn apply_definition(all: &Api<CustomResourceDefinition>, definition: &CustomResourceDefinition) -> Result<()> {
    let name = definition.name_any();
    let params = PatchParams::apply(MANAGER).force();
    all.patch(&name, &params, &Patch::Apply(definition)).await?;
    let served = await_condition(all.clone(), &name, is_crd_established());
    let served = timeout(ESTABLISH_TIMEOUT, served).await;
    served.with_context(|| format!("{name} was not served within {ESTABLISH_TIMEOUT:?}"))??;
    Ok(())
}

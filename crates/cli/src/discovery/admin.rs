//! One admin address: over HTTP, or of a pod through the API server. Only reads, and sends it no credentials.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use serde_json::Value;

use crate::cluster::{get_json, str_at};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct AdminClient {
    transport: AdminTransport,
}

enum AdminTransport {
    Http {
        base: String,
        http: reqwest::Client,
    },
    /// The path of a pod's port in the API server's proxy.
    Pod {
        path: String,
        client: Client,
    },
}

impl AdminClient {
    pub(crate) fn for_url(url: &str) -> Result<Self> {
        ensure!(
            url.starts_with("http://") || url.starts_with("https://"),
            "invalid --admin {url:?}; use a URL such as http://127.0.0.1:8080"
        );
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).no_proxy();
        let http = http.redirect(reqwest::redirect::Policy::none()).build()?;
        let base = url.trim_end_matches('/').to_owned();
        Ok(Self {
            transport: AdminTransport::Http { base, http },
        })
    }

    /// The operator in a pod, if the pod has a port named `admin`.
    pub(super) fn for_pod(client: &Client, pod: &Value) -> Option<Self> {
        let (namespace, name) = (str_at(pod, "/metadata/namespace"), str_at(pod, "/metadata/name"));
        let containers = pod.pointer("/spec/containers")?.as_array()?;
        let ports = containers.iter().filter_map(|it| it["ports"].as_array());
        let port = ports.flatten().find(|port| port["name"] == "admin")?;
        let port = port["containerPort"].as_u64()?;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy");
        let client = client.clone();
        Some(Self {
            transport: AdminTransport::Pod { path, client },
        })
    }

    pub(crate) fn name(&self) -> &str {
        match &self.transport {
            AdminTransport::Http { base, .. } => base,
            AdminTransport::Pod { path, .. } => path,
        }
    }

    /// The JSON at `path`; `None` if the path does not exist.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        let answer = match &self.transport {
            AdminTransport::Http { base, http } => get_over_http(http, &format!("{base}{path}")).await,
            AdminTransport::Pod { path: pod, client } => get_through_proxy(client, &format!("{pod}{path}")).await,
        };
        answer.with_context(|| format!("the operator at {}", self.name()))
    }

    /// Its identity in each leader election.
    pub(super) async fn identities(&self) -> BTreeSet<String> {
        let Ok(Some(state)) = self.get("/debug/state.json").await else {
            return BTreeSet::new();
        };
        let leases = state["leases"].as_array().into_iter().flatten();
        let names = leases.filter_map(|lease| lease["identity"].as_str());
        names.map(str::to_owned).collect()
    }
}

async fn get_over_http(http: &reqwest::Client, url: &str) -> Result<Option<Value>> {
    let answer = http.get(url).send().await.map_err(reqwest::Error::without_url)?;
    match answer.status().as_u16() {
        200 => {
            let body = answer.bytes().await.map_err(reqwest::Error::without_url)?;
            Ok(Some(serde_json::from_slice(&body).context("the response is not JSON")?))
        }
        404 => Ok(None),
        code => bail!("it responded with {code}"),
    }
}

async fn get_through_proxy(client: &Client, path: &str) -> Result<Option<Value>> {
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, get_json(client, path)).await;
    match answer.context("it did not respond in time")? {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

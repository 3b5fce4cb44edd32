//! Checks at startup that a cluster has what a long-running command needs, so that a problem is one line and an exit
//! instead of minutes of retries.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Error};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::get_json;

/// Time limit for a kind that was just installed to be listed.
const KINDS_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for an operator that starts with the gateway to install the Gateway API.
const GATEWAY_API_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const GROUP: &str = "aplomb.dev/v1alpha1";
/// The kinds of the Gateway API that `aplomb gateway` reads.
const GATEWAY_API: (&str, &[&str]) = ("gateway.networking.k8s.io/v1", &["gateways", "httproutes"]);

/// Checks that the server responds and accepts the credentials.
pub(crate) async fn check_server(client: &Client) -> Result<()> {
    let answer = timeout(REQUEST_TIMEOUT, client.apiserver_version()).await;
    match answer.map_err(|_| timeout_error())? {
        // A user without the right to read the version may still have all rights that are needed.
        Err(Error::Api(status)) if status.code != 401 => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}

/// Checks that the server serves the kinds of these CRDs.
pub(crate) async fn check_kinds(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<()> {
    let Some(first) = definitions.first() else {
        return Ok(());
    };
    let version = first.spec.versions.first().map_or("", |it| it.name.as_str());
    let group = format!("{}/{version}", first.spec.group);
    let plurals = definitions.iter().map(|it| it.spec.names.plural.as_str());
    wait_served(client, &group, &plurals.collect::<Vec<_>>(), KINDS_TIMEOUT).await
}

/// Checks that the server serves the Gateway API, which the operator installs where it is missing.
pub(crate) async fn wait_gateway_api(client: &Client) -> Result<()> {
    let (group, plurals) = GATEWAY_API;
    if wait_served(client, group, plurals, Duration::ZERO).await.is_err() {
        tracing::info!(group, "Waiting for the Gateway API to be installed");
    }
    wait_served(client, group, plurals, GATEWAY_API_TIMEOUT).await
}

async fn wait_served(client: &Client, group: &str, plurals: &[&str], patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let missing = timeout(REQUEST_TIMEOUT, missing_plurals(client, group, plurals)).await;
        let missing = missing.map_err(|_| timeout_error())??;
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let name = group.split('/').next().unwrap_or_default();
            bail!(
                "{} of {name} not installed; run `aplomb crds --apply` as an administrator",
                missing.join(", ")
            );
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Creates the namespace of the operators' and gateways' own objects if it does not exist. Without the right to read it, it is assumed to exist: a pod runs in it.
pub(crate) async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let all: Api<Namespace> = Api::all(client.clone());
    match all.get_opt(name).await {
        Ok(Some(_)) => return Ok(()),
        Err(Error::Api(status)) if status.is_forbidden() => return Ok(()),
        Ok(None) => {}
        Err(error) => return Err(error.into()),
    }
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match all.create(&PostParams::default(), &namespace).await {
        Ok(_) => {
            tracing::info!(namespace = name, "Created namespace");
            Ok(())
        }
        Err(Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(Error::Api(status)) if status.is_forbidden() => bail!(
            "namespace {name} does not exist and cannot be created; run `kubectl create namespace \
             {name}`, or use another with --namespace"
        ),
        Err(error) => Err(error.into()),
    }
}

/// Checks that this user may list a kind of ours, the first right that every command needs.
pub(crate) async fn check_list_permission(client: &Client, plural: &str, namespace: Option<&str>) -> Result<()> {
    let deadline = Instant::now() + KINDS_TIMEOUT;
    let scope = namespace.map_or_else(String::new, |it| format!("/namespaces/{it}"));
    let path = format!("/apis/{GROUP}{scope}/{plural}?limit=1");
    loop {
        let answer = timeout(REQUEST_TIMEOUT, get_json(client, &path)).await;
        match answer.map_err(|_| timeout_error())? {
            // A Role that was bound a moment ago may not be effective yet.
            Err(Error::Api(status)) if status.is_forbidden() && Instant::now() < deadline => {}
            other => return Ok(other.map(|_| ())?),
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn timeout_error() -> anyhow::Error {
    anyhow!(
        "the API server did not respond within {} s; check its address and that it is running",
        REQUEST_TIMEOUT.as_secs()
    )
}

async fn missing_plurals(client: &Client, group: &str, plurals: &[&str]) -> Result<Vec<String>> {
    let listed = match client.list_api_group_resources(group).await {
        Ok(listed) => listed.resources,
        Err(Error::Api(status)) if status.code == 404 => Vec::new(),
        // A user without discovery rights is expected to have been set up by an administrator.
        Err(Error::Api(status)) if status.is_forbidden() => return Ok(Vec::new()),
        Err(error) => return Err(error).context("cannot list the kinds of the cluster"),
    };
    let there = |plural: &&&str| !listed.iter().any(|it| it.name == **plural);
    let missing = plurals.iter().filter(there);
    Ok(missing.map(|&plural| plural.to_owned()).collect())
}

//! What a deployment says of its pods, as far as the player acts on it.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

use super::rollout::Desired;
use crate::coderd::users::digest;

/// What runs in the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Daemon,
    Proxy,
}

/// Where a pod finds its key or token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Text(String),
    Secret { name: String, key: String },
}

/// How to start a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) kind: Kind,
    /// The server it talks to.
    pub(super) url: String,
    pub(super) source: Source,
}

/// The environment of each kind: URL and secret.
const DAEMON: [&str; 2] = ["CODER_URL", "CODER_PROVISIONER_DAEMON_KEY"];
const PROXY: [&str; 2] = ["CODER_PRIMARY_ACCESS_URL", "CODER_PROXY_SESSION_TOKEN"];
/// What a deployment that says nothing gives its pods.
const GRACE: u64 = 30;

impl Template {
    /// Reads the template; `None` where it does not say what is needed.
    pub(super) fn of(deployment: &DynamicObject) -> Option<Self> {
        let containers = deployment.data.pointer("/spec/template/spec/containers")?;
        let env: Vec<&Value> = containers
            .as_array()?
            .iter()
            .filter_map(|container| container["env"].as_array())
            .flatten()
            .collect();
        let named = |name: &str| env.iter().find(|it| it["name"] == name);
        let kinds = [(Kind::Daemon, DAEMON), (Kind::Proxy, PROXY)];
        kinds.into_iter().find_map(|(kind, [url, secret])| {
            Some(Self {
                kind,
                url: named(url)?["value"].as_str()?.to_owned(),
                source: source(named(secret)?)?,
            })
        })
    }
}

fn source(env: &Value) -> Option<Source> {
    if let Some(text) = env["value"].as_str() {
        return Some(Source::Text(text.to_owned()));
    }
    let from = env.pointer("/valueFrom/secretKeyRef")?;
    let text = |member: &str| from[member].as_str().map(str::to_owned);
    Some(Source::Secret {
        name: text("name")?,
        key: text("key")?,
    })
}

/// What a deployment asks for; `None` when it is on its way out.
pub(super) fn desired(deployment: &DynamicObject, own: bool) -> Option<Desired> {
    if deployment.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let data = &deployment.data;
    let number = |path: &str| data.pointer(path).and_then(Value::as_u64);
    let replicas = number("/spec/replicas").unwrap_or(1);
    let generation = deployment.metadata.generation.unwrap_or_default();
    let observed = data.pointer("/status/observedGeneration").and_then(Value::as_i64);
    let complete = |path: &str| number(path).unwrap_or(0) == replicas;
    let template = data.pointer("/spec/template").unwrap_or(&Value::Null);
    let grace = number("/spec/template/spec/terminationGracePeriodSeconds");
    Some(Desired {
        generation,
        replicas: usize::try_from(replicas).unwrap_or(usize::MAX),
        revision: digest(&template.to_string())[..10].to_owned(),
        grace: Duration::from_secs(grace.unwrap_or(GRACE)),
        own,
        complete: observed == Some(generation)
            && complete("/status/updatedReplicas")
            && complete("/status/readyReplicas"),
    })
}

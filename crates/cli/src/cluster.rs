//! The cluster: a kubeconfig and a context, found as kubectl does, and a client that does not wait long for an
//! unreachable server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http::{HeaderName, HeaderValue};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde_json::Value;

use crate::args::ClusterArgs;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct ClusterClient {
    pub(crate) client: Client,
    /// The namespace of objects that are named without one.
    pub(crate) namespace: String,
    /// The server's name in messages.
    pub(crate) server: String,
}

impl ClusterClient {
    /// The cluster that the flags select. Sends nothing yet.
    pub(crate) async fn from_args(args: &ClusterArgs) -> Result<Self> {
        let config = load_config(args.kubeconfig.clone(), args.context.clone()).await?;
        let namespace = args.namespace.clone();
        Ok(Self {
            namespace: namespace.unwrap_or_else(|| config.default_namespace.clone()),
            server: config.cluster_url.to_string(),
            client: aplomb::client(config)?,
        })
    }

    /// The result of `look`, unless the server takes too long.
    pub(crate) async fn with_timeout<T>(&self, look: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(READ_TIMEOUT, look).await {
            Ok(found) => found,
            Err(_) => bail!(
                "{} did not respond within {} s; check its address and that it is running",
                self.server,
                READ_TIMEOUT.as_secs()
            ),
        }
    }
}

/// The JSON at a path of the server.
pub(crate) async fn get_json(client: &Client, path: &str) -> kube::Result<Value> {
    let request = http::Request::get(path).body(Vec::new());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

/// The items of a list at a path of the server.
pub(crate) async fn list_items(client: &Client, path: &str) -> kube::Result<Vec<Value>> {
    let answer = get_json(client, path).await?;
    Ok(answer["items"].as_array().cloned().unwrap_or_default())
}

/// A string in an object; empty if it does not exist.
pub(crate) fn str_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The configuration of a client: from a file, from kubectl's default files, or from this process's pod.
pub(crate) async fn load_config(kubeconfig: Option<PathBuf>, context: Option<String>) -> Result<Config> {
    let mut config = match kubeconfig {
        Some(file) => {
            let name = format!("--kubeconfig {}", file.display());
            let read = Kubeconfig::read_from(&file).map_err(|error| invalid_kubeconfig(&name, &error))?;
            from_kubeconfig(read, context, &name).await?
        }
        None => match Kubeconfig::read() {
            Ok(read) => from_kubeconfig(read, context, "kubectl's kubeconfig").await?,
            Err(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath) if context.is_none() => {
                Config::incluster()
                    .map_err(|_| anyhow!("no cluster configured; set --kubeconfig FILE, or run in a pod"))?
            }
            Err(error) => return Err(invalid_kubeconfig("kubectl's kubeconfig", &error)),
        },
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(config)
}

/// The parser quotes the invalid line, which may contain a token, so only the message of the operating system
/// is repeated.
fn invalid_kubeconfig(name: &str, error: &KubeconfigError) -> anyhow::Error {
    let why = match error {
        KubeconfigError::ReadConfig(cause, _) => format!(" ({cause})"),
        _ => String::new(),
    };
    anyhow!("{name}: not a readable kubeconfig{why}; see `kubectl config view --raw`")
}

async fn from_kubeconfig(read: Kubeconfig, context: Option<String>, name: &str) -> Result<Config> {
    let which = match &context {
        Some(context) => format!("its context {context}"),
        None => "its current context".to_owned(),
    };
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let acting = impersonation_headers(&read, options.context.as_ref());
    let mut config = Config::from_custom_kubeconfig(read, &options)
        .await
        .with_context(|| format!("{name}: {which} cannot be used; fix it, or select another with --context"))?;
    config.headers.extend(acting);
    Ok(config)
}

/// The impersonation headers of a context, as kubectl sends for `--as`.
fn impersonation_headers(read: &Kubeconfig, context: Option<&String>) -> Vec<(HeaderName, HeaderValue)> {
    let named = context.or(read.current_context.as_ref());
    let context = read.contexts.iter().find(|it| Some(&it.name) == named);
    let user = context.and_then(|it| it.context.as_ref()?.user.as_ref());
    let user = read.auth_infos.iter().find(|it| Some(&it.name) == user);
    let Some(user) = user.and_then(|it| it.auth_info.as_ref()) else {
        return Vec::new();
    };
    let groups = user.impersonate_groups.iter().flatten();
    let groups = groups.map(|group| ("impersonate-group", group));
    let name = user.impersonate.iter().map(|name| ("impersonate-user", name));
    let all = name
        .chain(groups)
        .filter_map(|(header, value)| Some((HeaderName::from_static(header), HeaderValue::from_str(value).ok()?)));
    all.collect()
}

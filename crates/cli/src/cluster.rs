//! Which cluster: a kubeconfig and a context, as kubectl finds them, and a client that does not wait long for a
//! server that is not there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http::{HeaderName, HeaderValue};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::args::ClusterArgs;

/// A server that is there accepts a connection within this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Whoever looks at something is told within this that it cannot be seen.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster to look at.
#[derive(Clone)]
pub(crate) struct ClusterClient {
    pub(crate) client: Client,
    /// Where objects without a namespace of their own are looked for.
    pub(crate) namespace: String,
    /// What the server is called in messages.
    pub(crate) server: String,
}

impl ClusterClient {
    /// The cluster that the flags name. Sends nothing yet.
    pub(crate) async fn from_args(args: &ClusterArgs) -> Result<Self> {
        let config = load_config(args.kubeconfig.clone(), args.context.clone()).await?;
        let namespace = args.namespace.clone();
        Ok(Self {
            namespace: namespace.unwrap_or_else(|| config.default_namespace.clone()),
            server: config.cluster_url.to_string(),
            client: aplomb::client(config)?,
        })
    }

    /// What `look` finds, unless the server takes too long to say it.
    pub(crate) async fn with_timeout<T>(&self, look: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(READ_TIMEOUT, look).await {
            Ok(found) => found,
            Err(_) => bail!(
                "{} did not answer within {} s; is its address right, and is it up?",
                self.server,
                READ_TIMEOUT.as_secs()
            ),
        }
    }
}

/// The configuration of a client: from a file, from where kubectl has it, or from the pod this runs in.
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
                Config::incluster().map_err(|_| {
                    anyhow!("no cluster: give --kubeconfig FILE, or run it in a pod with a ServiceAccount")
                })?
            }
            Err(error) => return Err(invalid_kubeconfig("kubectl's kubeconfig", &error)),
        },
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(config)
}

/// A parser quotes the line it stumbled over, and there are tokens in such lines: only what the operating system
/// says is repeated.
fn invalid_kubeconfig(name: &str, error: &KubeconfigError) -> anyhow::Error {
    let why = match error {
        KubeconfigError::ReadConfig(cause, _) => format!(" ({cause})"),
        _ => String::new(),
    };
    anyhow!("{name}: not a readable kubeconfig{why}; `kubectl config view --raw` prints one")
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
        .with_context(|| {
            format!("{name}: {which} cannot be used; name another with --context, or repair it")
        })?;
    config.headers.extend(acting);
    Ok(config)
}

/// Whom the user of a context acts as: what kubectl writes with `--as`.
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
    let name = user
        .impersonate
        .iter()
        .map(|name| ("impersonate-user", name));
    let all = name.chain(groups).filter_map(|(header, value)| {
        Some((
            HeaderName::from_static(header),
            HeaderValue::from_str(value).ok()?,
        ))
    });
    all.collect()
}

//! `aplomb run`: the operators, in a pod or outside the cluster. Reads flags, connects, and runs until a signal.
//!
//! A token is never handled here, only the name of its file.

mod admin;
mod settings;

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::FutureExt;
use kube::Config;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, OperatorArg, RunArgs};
use crate::prerequisites;

use self::admin::{AdminServer, OperatorDeps};
use self::settings::{OperatorSettings, settings, settings_json};
pub(crate) use self::settings::{check_label, is_dns_label};

const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Log levels. iroh logs an error for each relay of an endpoint that closes normally, so relays are left out.
const LEVELS: &str = "info,kube_client::client::builder=off,iroh::socket::transports::relay=off,iroh::socket::transports::relay::actor=info";
const NAMESPACE: &str = "aplomb-system";

pub(crate) async fn run(args: RunArgs) -> Result<()> {
    let settings = settings(&args)?;
    if args.print_config {
        println!("{:#}", settings_json(&args, &settings));
        return Ok(());
    }
    init_logging(args.log_format);
    let mut signals = Signals::new()?;
    let client = aplomb::client(load_config(args.kubeconfig.clone()).await?)?;
    check_prerequisites(&client, &args).await?;
    let admin = AdminServer::open(args.admin).await?;
    let settings = settings.with_admin_url(admin.url());
    let shutdown = async move { signals.recv().await };
    let at_home = [OperatorArg::Coder, OperatorArg::Tunnel];
    if at_home.iter().any(|it| args.operators().contains(it)) {
        prerequisites::ensure_namespace(&client, &settings.tunnel.namespace).await?;
    }
    let parts = admin.parts()?;
    admin
        .serve(run_operators(args.operators(), client, &settings, parts, shutdown))
        .await
}

/// Fails at once if it cannot work, instead of retrying.
async fn check_prerequisites(client: &kube::Client, args: &RunArgs) -> Result<()> {
    let operators = args.operators().iter().map(|it| it.operator());
    let definitions: Vec<_> = operators.clone().flat_map(|it| (it.definitions)()).collect();
    prerequisites::check_kinds(client, &definitions).await?;
    for (argument, operator) in args.operators().iter().zip(operators) {
        let namespace = match argument {
            OperatorArg::Coder => args.watch_namespace.as_deref(),
            OperatorArg::Egress | OperatorArg::Tunnel => None,
        };
        prerequisites::check_list_permission(client, operator.main_plural, namespace).await?;
    }
    Ok(())
}

/// Runs them in parallel. If one fails, all end, so that the supervisor of this process restarts all of them.
async fn run_operators(
    operators: &[OperatorArg],
    client: kube::Client,
    settings: &OperatorSettings,
    parts: OperatorDeps,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let shutdown = shutdown.shared();
    let coder = async {
        if operators.contains(&OperatorArg::Coder) {
            let settings = &settings.coder;
            aplomb_coder_operator::run(client.clone(), settings, parts.coder, shutdown.clone()).await?;
        }
        Ok(())
    };
    let egress = async {
        if operators.contains(&OperatorArg::Egress) {
            let settings = &settings.egress;
            aplomb_egress_operator::run(client.clone(), settings, parts.egress, shutdown.clone()).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let tunnel = async {
        if operators.contains(&OperatorArg::Tunnel) {
            let settings = &settings.tunnel;
            crate::crds::ensure_gateway_api(&client).await?;
            aplomb_tunnel_operator::run(client.clone(), settings, parts.tunnel, shutdown.clone()).await?;
        }
        Ok(())
    };
    futures::try_join!(coder, egress, tunnel)?;
    Ok(())
}

/// SIGINT and SIGTERM, from when this is created.
pub(crate) struct Signals(Signal, Signal);

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        Ok(Self(interrupt, terminate))
    }

    pub(crate) async fn recv(&mut self) {
        tokio::select! { biased;
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

pub(crate) fn own_namespace() -> String {
    let file = std::fs::read_to_string(NAMESPACE_FILE).unwrap_or_default();
    match file.trim() {
        "" => NAMESPACE.to_owned(),
        own => own.to_owned(),
    }
}

/// The default identity: a pod's name is unique; elsewhere the process id makes it so.
fn own_identity() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), std::process::id())
}

pub(crate) async fn load_config(kubeconfig: Option<PathBuf>) -> Result<Config> {
    crate::cluster::load_config(kubeconfig, None).await
}

pub(crate) fn init_logging(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LEVELS));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

//! `aplomb run`: the operators, in a cluster or beside one. Reads flags, connects, runs until a signal.
//!
//! A token never passes through here: only the name of its file does.

mod office;
mod settings;

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::FutureExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Config;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, Operator, RunArgs};
use crate::{namespace, preflight};

use self::office::{Office, Parts};
pub(crate) use self::settings::label;
use self::settings::{All, settings, shown};

const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// What is logged. An endpoint that is closed in order says of its relays that it is an error.
const LEVELS: &str = "info,kube_client::client::builder=off,iroh::socket::transports::relay=off,iroh::socket::transports::relay::actor=info";
const NAMESPACE: &str = "aplomb-system";

pub(crate) async fn run(args: RunArgs) -> Result<()> {
    let settings = settings(&args)?;
    if args.print_config {
        println!("{:#}", shown(&args, &settings));
        return Ok(());
    }
    log(args.log_format);
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let client = aplomb::client(config(args.kubeconfig.clone()).await?)?;
    possible(&client, &args).await?;
    let office = Office::open(args.admin).await?;
    let settings = settings.at(office.url());
    let shutdown = async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let at_home = [Operator::Coder, Operator::Tunnel];
    if at_home.iter().any(|it| args.operators().contains(it)) {
        namespace::ensure(&client, &settings.tunnel.namespace).await?;
    }
    let parts = office.parts()?;
    office
        .serve(operate(
            args.operators(),
            client,
            &settings,
            parts,
            shutdown,
        ))
        .await
}

/// Says at once that it cannot work, rather than waiting for it.
async fn possible(client: &kube::Client, args: &RunArgs) -> Result<()> {
    preflight::kinds(client, &definitions(args.operators())).await?;
    for operator in args.operators() {
        let (plural, namespace) = match operator {
            Operator::Coder => ("coderprovisioners", args.watch_namespace.as_deref()),
            Operator::Egress => ("stableegresses", None),
            Operator::Tunnel => ("httpproxies", None),
        };
        preflight::may_list(client, plural, namespace).await?;
    }
    Ok(())
}

/// What they look after, and cannot work without.
fn definitions(operators: &[Operator]) -> Vec<CustomResourceDefinition> {
    let of = |operator: &Operator| match operator {
        Operator::Coder => aplomb_api::coder_definitions(),
        Operator::Egress => aplomb_api::egress_definitions(),
        Operator::Tunnel => aplomb_api::tunnel_definitions(),
    };
    operators.iter().flat_map(of).collect()
}

/// Runs them side by side. One that fails ends the others, so that whoever watches over this process
/// starts all of them anew.
async fn operate(
    operators: &[Operator],
    client: kube::Client,
    settings: &All,
    parts: Parts,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let shutdown = shutdown.shared();
    let coder = async {
        if operators.contains(&Operator::Coder) {
            let settings = &settings.coder;
            aplomb_coder_operator::run(client.clone(), settings, parts.coder, shutdown.clone())
                .await?;
        }
        Ok(())
    };
    let egress = async {
        if operators.contains(&Operator::Egress) {
            let settings = &settings.egress;
            aplomb_egress_operator::run(client.clone(), settings, parts.egress, shutdown.clone())
                .await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let tunnel = async {
        if operators.contains(&Operator::Tunnel) {
            let settings = &settings.tunnel;
            crate::crds::provide(&client).await?;
            aplomb_tunnel_operator::run(client.clone(), settings, parts.tunnel, shutdown.clone())
                .await?;
        }
        Ok(())
    };
    futures::try_join!(coder, egress, tunnel)?;
    Ok(())
}

pub(crate) fn own_namespace() -> String {
    let file = std::fs::read_to_string(NAMESPACE_FILE).unwrap_or_default();
    match file.trim() {
        "" => NAMESPACE.to_owned(),
        own => own.to_owned(),
    }
}

/// Names this process alone: a pod's name is unique, and elsewhere the process id makes it so.
fn own_identity() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), std::process::id())
}

pub(crate) async fn config(kubeconfig: Option<PathBuf>) -> Result<Config> {
    crate::cluster::config(kubeconfig, None).await
}

pub(crate) fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LEVELS));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

//! `aplomb run`: the operators, in a cluster or beside one. Reads flags, connects, runs until a signal.
//!
//! A value that cannot work ends the process at once with the name of its flag and what to write
//! instead. A token never passes through here: only the name of its file does.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use aplomb_egress::Settings;
use futures::FutureExt;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, Operator, RunArgs};
use crate::namespace;

const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// What is logged. An endpoint that is closed in order says of its relays that it is an error.
const LEVELS: &str =
    "info,iroh::socket::transports::relay=off,iroh::socket::transports::relay::actor=info";
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
    let client = aplomb::client(config(args.kubeconfig).await?)?;
    let shutdown = async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    if args.operators.contains(&Operator::Tunnel) {
        namespace::ensure(&client, &settings.tunnel.namespace).await?;
    }
    operate(&args.operators, client, &settings, shutdown).await
}

/// Runs them side by side. One that fails ends the others, so that whoever watches over this process
/// starts all of them anew.
async fn operate(
    operators: &[Operator],
    client: kube::Client,
    settings: &Both,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let shutdown = shutdown.shared();
    let egress = async {
        if operators.contains(&Operator::Egress) {
            aplomb_egress::run(client.clone(), &settings.egress, shutdown.clone()).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let tunnel = async {
        if operators.contains(&Operator::Tunnel) {
            let seed = u64::from(std::process::id());
            crate::crds::provide(&client).await?;
            aplomb_tunnel::run(client.clone(), &settings.tunnel, seed, shutdown.clone()).await?;
        }
        Ok(())
    };
    futures::try_join!(egress, tunnel)?;
    Ok(())
}

/// The settings of each operator.
#[derive(Debug)]
struct Both {
    egress: Settings,
    tunnel: aplomb_tunnel::Settings,
}

fn settings(args: &RunArgs) -> Result<Both> {
    let mut named = args.operators.clone();
    named.dedup();
    ensure!(
        named.len() == args.operators.len() && named.len() <= 2,
        "name each operator once: aplomb run egress tunnel"
    );
    ensure!(
        named.len() == 1 || args.admin.is_none(),
        "--admin serves one operator: run each in a process of its own, or leave it out"
    );
    let endpoint = &args.hetzner_endpoint;
    let uri: http::Uri = endpoint.parse().with_context(|| endpoint_fix(endpoint))?;
    let schemed = matches!(uri.scheme_str(), Some("http" | "https"));
    ensure!(
        schemed && uri.host().is_some() && uri.query().is_none(),
        endpoint_fix(endpoint)
    );
    if let Some(file) = &args.hetzner_token_file {
        let readable = std::fs::metadata(file).is_ok_and(|meta| meta.is_file());
        ensure!(
            readable,
            "--hetzner-token-file {}: there is no such file; write the API token to it, or leave the \
             flag out and give every StableEgress a tokenSecretRef",
            file.display()
        );
    }
    let namespace = args.namespace.clone().unwrap_or_else(own_namespace);
    label("--namespace", &namespace)?;
    if let Some(namespace) = &args.pods_namespace {
        label("--pods-namespace", namespace)?;
    }
    let identity = args.identity.clone().unwrap_or_else(own_identity);
    ensure!(
        !identity.trim().is_empty(),
        "--identity is empty: give each replica a name of its own, such as its pod's"
    );
    domain(&args.domain)?;
    let tunnel = aplomb_tunnel::Settings {
        domain: args.domain.clone(),
        namespace: namespace.clone(),
        identity: identity.clone(),
        leader_elect: args.leader_elect,
        admin: args.admin,
    };
    let egress = Settings {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
        token_file: args.hetzner_token_file.clone(),
        namespace,
        pods_namespace: args.pods_namespace.clone(),
        identity,
        leader_elect: args.leader_elect,
        admin: args.admin,
    };
    Ok(Both { egress, tunnel })
}

/// Hostnames of up to 18 characters are put before it.
fn domain(domain: &str) -> Result<()> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let label = |label: &str| {
        let edges = !label.starts_with('-') && !label.ends_with('-');
        (1..=63).contains(&label.len()) && label.chars().all(inner) && edges
    };
    ensure!(
        domain.len() <= 235 && domain.split('.').all(label),
        "--domain {domain:?} is no domain: use lower-case letters, digits, dashes and dots, such as \
         tunnels.example.com"
    );
    Ok(())
}

fn endpoint_fix(endpoint: &str) -> String {
    format!(
        "--hetzner-endpoint {endpoint:?} is no base of an API: write it like https://api.hetzner.cloud/v1"
    )
}

/// A namespace's name is a DNS label.
pub(crate) fn label(flag: &str, name: &str) -> Result<()> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = !name.starts_with('-') && !name.ends_with('-');
    ensure!(
        (1..=63).contains(&name.len()) && name.chars().all(inner) && edges,
        "{flag} {name:?} cannot be a namespace: use lower-case letters, digits and dashes, such as \
         {NAMESPACE}"
    );
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
    let Some(file) = kubeconfig else {
        return Config::infer().await.context(
            "no cluster: give --kubeconfig FILE, or run it in a pod with a ServiceAccount",
        );
    };
    let name = file.display();
    let read = Kubeconfig::read_from(&file)
        .with_context(|| format!("--kubeconfig {name}: not a readable kubeconfig"))?;
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("--kubeconfig {name}: its current context cannot be used"))
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

/// The settings in force, under the names of their flags.
fn shown(args: &RunArgs, settings: &Both) -> serde_json::Value {
    let domain = &settings.tunnel.domain;
    let settings = &settings.egress;
    json!({
        "operators": args.operators.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "kubeconfig": args.kubeconfig,
        "domain": domain,
        "hetzner-endpoint": settings.endpoint,
        "hetzner-token-file": settings.token_file,
        "namespace": settings.namespace,
        "pods-namespace": settings.pods_namespace,
        "admin": settings.admin,
        "leader-elect": settings.leader_elect,
        "identity": settings.identity,
        "log-format": args.log_format.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(flags: &[&str]) -> RunArgs {
        let words = ["aplomb", "run", "egress"].iter().chain(flags);
        match Cli::try_parse_from(words).expect("flags").command {
            Command::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn complaint(flags: &[&str]) -> String {
        let error = settings(&parsed(flags)).expect_err("a bad value");
        format!("{error:#}")
    }

    #[test]
    fn a_bad_value_is_answered_with_its_flag_and_a_good_one() {
        for (flags, fix) in [
            (["--hetzner-endpoint", "api.example.com"], "https://"),
            (["--hetzner-endpoint", "ftp://api.example.com"], "https://"),
            (["--hetzner-token-file", "/no/such/file"], "tokenSecretRef"),
            (["--namespace", "Aplomb_System"], "aplomb-system"),
            (["--pods-namespace", "a-"], "aplomb-system"),
            (["--identity", " "], "pod"),
            (["--domain", "Tunnels_Example"], "tunnels.example.com"),
        ] {
            let said = complaint(&flags);
            assert!(said.contains(flags[0]) && said.contains(fix), "{said}");
        }
    }

    #[test]
    fn what_is_printed_is_what_is_in_force() {
        let args = parsed(&[
            "--namespace",
            "net",
            "--identity",
            "me",
            "--leader-elect",
            "false",
        ]);
        let settings = settings(&args).expect("settings");
        let shown = shown(&args, &settings);
        assert_eq!(shown["namespace"], "net");
        assert_eq!(shown["leader-elect"], false);
        assert_eq!(shown["hetzner-endpoint"], "https://api.hetzner.cloud/v1");
        assert_eq!(shown["operators"], json!(["egress"]));
    }
}

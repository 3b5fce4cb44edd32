//! Runs Kubernetes' own end-to-end suite on `aplomb box` and on the real server, and counts.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use aplomb_conformance::build::aplomb;
use aplomb_conformance::e2e::{self, Encoding, Outcome, Run};
use aplomb_conformance::kubectl::host::Host;
use aplomb_controlplane::{Binaries, Program, end_to_end_suite};
use clap::{Parser, ValueEnum};
use futures::future::try_join_all;

/// Runs the specs that need no nodes, in JSON and in protobuf, and prints what passed where.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The aplomb binary; built from this workspace unless given.
    #[arg(long)]
    aplomb: Option<PathBuf>,
    /// Where to run.
    #[arg(long, value_enum, default_value_t = Where::Both)]
    server: Where,
    /// How clients speak; both unless given.
    #[arg(long, value_enum)]
    encoding: Option<Encoding>,
    /// Only specs whose name matches this expression.
    #[arg(long)]
    focus: Option<String>,
    /// Where logs and reports go.
    #[arg(long, default_value = "target/e2e")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Where {
    Box,
    Real,
    Both,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let suite = tokio::task::spawn_blocking(end_to_end_suite).await??;
    let binaries = tokio::task::spawn_blocking(Binaries::find_or_build).await??;
    std::fs::create_dir_all(&args.out).with_context(|| format!("creating {}", args.out.display()))?;
    let encodings = match args.encoding {
        Some(one) => vec![one],
        None => vec![Encoding::Json, Encoding::Protobuf],
    };
    let kubectl = binaries.path(Program::Kubectl);
    let mut outcomes = Vec::new();
    for encoding in encodings {
        // Servers side by side: most of a spec is waiting. Fresh ones, so that no run meets
        // what another left.
        let hosts = hosts(&args).await?;
        let runs = hosts.iter().map(|host| one(&args, &suite, kubectl, host, encoding));
        outcomes.extend(try_join_all(runs).await?);
    }
    Ok(report(&outcomes))
}

async fn hosts(args: &Args) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    if args.server != Where::Real {
        let program = match &args.aplomb {
            Some(path) => path.clone(),
            None => aplomb()?,
        };
        hosts.push(Host::aplomb_box(&program).await?);
    }
    if args.server != Where::Box {
        hosts.push(Host::real().await?);
    }
    for host in &hosts {
        e2e::node(&host.kubeconfig)
            .await
            .with_context(|| format!("making a node on the {}", host.name))?;
    }
    Ok(hosts)
}

async fn one(args: &Args, suite: &Path, kubectl: &Path, host: &Host, encoding: Encoding) -> Result<Outcome> {
    e2e::run(&Run {
        suite,
        kubectl,
        server: host.name,
        kubeconfig: &host.kubeconfig,
        encoding,
        focus: args.focus.as_deref(),
        out: args.out.clone(),
    })
    .await
}

fn report(outcomes: &[Outcome]) -> ExitCode {
    println!(
        "{:<7} {:<9} {:>6} {:>6} {:>6}",
        "SERVER", "ENCODING", "PASSED", "FAILED", "TOOK"
    );
    for outcome in outcomes {
        let (passed, failed) = (outcome.counts.passed.len(), outcome.counts.failed.len());
        println!(
            "{:<7} {:<9} {passed:>6} {failed:>6} {:>5}s",
            outcome.server,
            outcome.encoding,
            outcome.took.as_secs()
        );
    }
    for outcome in outcomes {
        for name in &outcome.counts.failed {
            println!("FAILED {} {}: {name}", outcome.server, outcome.encoding);
        }
    }
    let good = |outcome: &Outcome| outcome.counts.failed.is_empty() && !outcome.counts.passed.is_empty();
    if outcomes.iter().all(good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

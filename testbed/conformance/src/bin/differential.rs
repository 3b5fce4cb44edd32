//! `differential`: random operations on the real kube-apiserver and on the box, compared.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use aplomb_apiserver::server::ApiServer;
use aplomb_conformance::differential::{Plan, catalog::Catalog, peer::Peer, run};
use aplomb_controlplane::{ControlPlane, Options};
use clap::Parser;

/// Carries out the same random operations on two servers and compares what they say.
#[derive(Debug, Parser)]
struct Args {
    /// How many operations.
    #[arg(long, default_value_t = 10_000)]
    ops: usize,
    /// The same seed gives the same operations.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Only these kinds, by name (another choice of kinds is another sequence of operations).
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Where to write the report as JSON.
    #[arg(long)]
    report: Option<PathBuf>,
    /// A real server that already runs and holds nothing of an earlier run.
    #[arg(long)]
    real_kubeconfig: Option<PathBuf>,
    /// A server in the place of the box.
    #[arg(long)]
    box_kubeconfig: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut plane = None;
    let real = match &args.real_kubeconfig {
        Some(file) => Peer::of_kubeconfig("real", file).await?,
        None => {
            let started = plane.insert(ControlPlane::start(Options::default()).await?);
            Peer::new("real", started.client().await?)
        }
    };
    let other = match &args.box_kubeconfig {
        Some(file) => Peer::of_kubeconfig("box", file).await?,
        None => Peer::new("box", aplomb_apiserver::http::client(&ApiServer::builder().build())),
    };
    let mut tell = |text: &str| println!("{text}");
    let plan = Plan {
        seed: args.seed,
        ops: args.ops,
        catalog: Catalog::of(&args.kinds)?,
    };
    let report = run(&plan, real, other, &mut tell).await?;
    if let Some(file) = &args.report {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    println!("{}", report.table());
    println!("{} passed, {} failed", report.passed, report.failed);
    Ok(if report.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

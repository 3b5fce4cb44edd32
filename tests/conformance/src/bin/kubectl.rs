//! Runs stock kubectl against `aplomb box` and the real server, and compares.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aplomb_conformance::kubectl::{self, host::Host};
use clap::Parser;

/// Five times the promise of a second: other things run on the same cores.
const READY_LIMIT: Duration = Duration::from_secs(5);

/// Runs a script of stock kubectl commands and compares exit codes and output.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The aplomb binary; built from this workspace unless given.
    #[arg(long)]
    aplomb: Option<PathBuf>,
    /// Only on the box: exit codes are checked, nothing is compared.
    #[arg(long)]
    box_only: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let aplomb = match args.aplomb {
        Some(path) => path,
        None => build_aplomb()?,
    };
    let the_box = Host::aplomb_box(&aplomb).await?;
    println!("aplomb box is ready after {:?}", the_box.ready_after);
    ensure!(the_box.ready_after < READY_LIMIT, "that is too late");
    let real = if args.box_only {
        None
    } else {
        Some(Host::real().await?)
    };
    let verdicts = kubectl::run(&the_box, real.as_ref()).await?;
    let mut failed = 0;
    for verdict in &verdicts {
        if let Some(failure) = &verdict.failure {
            failed += 1;
            println!("FAILED kubectl {}\n    {failure}", verdict.step);
        }
    }
    println!("{} passed, {failed} failed", verdicts.len() - failed);
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the binary beside this one.
fn build_aplomb() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--locked", "--quiet", "-p", "aplomb-cli"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "aplomb does not build");
    let this = std::env::current_exe()?;
    Ok(this.with_file_name("aplomb"))
}

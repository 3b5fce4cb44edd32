//! Runs scripts of stock kubectl and helm against `aplomb box` and the real server, and compares.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use aplomb_conformance::build;
use aplomb_conformance::kubectl::{self, Peer, host::Host, recording::Recording, script};
use clap::Parser;
use futures::TryStreamExt;

/// Many times the promise of a second: other things run on the same cores, which may be slow ones.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// Runs a script of stock kubectl commands and compares exit codes and output.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The aplomb binary; built from this workspace unless given.
    #[arg(long)]
    aplomb: Option<PathBuf>,
    /// Only on the box: exit codes are checked, nothing is compared.
    #[arg(long, conflicts_with = "against")]
    box_only: bool,
    /// Keeps what the real server does in this file.
    #[arg(long, conflicts_with_all = ["against", "box_only"])]
    record: Option<PathBuf>,
    /// Compares with such a file instead of a real server.
    #[arg(long)]
    against: Option<PathBuf>,
    /// Leaves out the scripts that say they are slow.
    #[arg(long)]
    quick: bool,
    /// Where the scripts are.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/kubectl"))]
    scripts: PathBuf,
    /// Only these scripts.
    names: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut scripts = script::read_all(&args.scripts, &args.names)?;
    scripts.retain(|script| !(args.quick && script.slow));
    let aplomb = match &args.aplomb {
        Some(path) => path.clone(),
        None => build::aplomb()?,
    };
    let the_box = Host::aplomb_box(&aplomb).await?;
    println!("aplomb box is ready after {:?}", the_box.ready_after);
    ensure!(the_box.ready_after < READY_LIMIT, "that is too late");
    let peer = peer(&args).await?;
    let (mut passed, mut failed) = (0, 0);
    let mut recording = match &args.record {
        Some(path) if path.exists() => Recording::read(path)?,
        _ => Recording::default(),
    };
    let mut played = kubectl::run(&the_box, &peer, &scripts);
    while let Some(played) = played.try_next().await? {
        for verdict in &played.verdicts {
            let Some(failure) = &verdict.failure else {
                passed += 1;
                continue;
            };
            failed += 1;
            println!("FAILED {} {}\n{failure}", verdict.place, verdict.command);
        }
        recording.keep(&played.name, played.theirs.unwrap_or_default());
    }
    if let Some(path) = &args.record {
        recording.write(path)?;
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What the box is compared with.
async fn peer(args: &Args) -> Result<Peer> {
    Ok(match &args.against {
        Some(path) => Peer::Recorded(Recording::read(path)?),
        None if args.box_only => Peer::Nobody,
        None => Peer::Real(Box::new(Host::real().await?)),
    })
}

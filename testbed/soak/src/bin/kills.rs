//! `kills`: a box under write load, killed at random moments and started again on the same directory.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use aplomb_soak::full_disk;
use aplomb_soak::kills::{Plan, Report, run};
use clap::Parser;
use tokio::time::Instant;

/// Kills a box at random moments and compares what is there with what was acknowledged.
#[derive(Debug, Parser)]
struct Args {
    /// How often.
    #[arg(long, default_value_t = 1000)]
    kills: usize,
    /// The same seed gives the same writes and moments, as far as a machine repeats itself.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// A program that takes `box --kubeconfig FILE --data-dir DIR`.
    #[arg(long, default_value = "target/debug/aplomb")]
    aplomb: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let began = Instant::now();
    match all(&Args::parse()).await {
        Ok(passed) => {
            println!("took {:.0} s", began.elapsed().as_secs_f64());
            println!("{passed} passed, 0 failed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

async fn all(args: &Args) -> Result<usize> {
    let fitted = full_disk::run(&args.aplomb).await?;
    println!("full disk: {fitted} objects acknowledged, the next refused, none lost");
    let plan = Plan {
        program: args.aplomb.clone(),
        kills: args.kills,
        seed: args.seed,
    };
    let report = run(&plan, |report| println!("{}", line(report))).await?;
    println!(
        "no acknowledged write lost, no resourceVersion used twice: {}",
        line(&report)
    );
    Ok(report.kills + 1)
}

fn line(report: &Report) -> String {
    format!(
        "kills: {} ({} during start), {} writes acknowledged, {} cut off, {} events, {} watches expired",
        report.kills, report.early, report.acknowledged, report.cut, report.events, report.expired
    )
}

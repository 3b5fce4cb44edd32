//! `watchers`: a thousand watchers of one kind at two hundred writes a second, on the box and, where
//! there is one, on another server beside it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use aplomb_soak::process::Recipe;
use aplomb_soak::watchers::{Figures, Plan, run};
use clap::Parser;

/// Counts that every watcher sees every event in order, and prints how long delivery takes.
#[derive(Debug, Parser)]
struct Args {
    /// How many watch.
    #[arg(long, default_value_t = 1000)]
    watchers: usize,
    /// Writes in a second.
    #[arg(long, default_value_t = 200)]
    rate: usize,
    /// For so long.
    #[arg(long, default_value_t = 15)]
    seconds: usize,
    /// A program that takes `box --kubeconfig FILE`.
    #[arg(long, default_value = "target/release/aplomb")]
    aplomb: PathBuf,
    /// The box keeps its state in a directory.
    #[arg(long)]
    keep: bool,
    /// Another server, for the ratio.
    #[arg(long)]
    beside: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match all(&Args::parse()).await {
        Ok(()) => {
            println!("1 passed, 0 failed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

async fn all(args: &Args) -> Result<()> {
    let plan = Plan {
        watchers: args.watchers,
        rate: args.rate,
        seconds: args.seconds,
    };
    let place = tempfile::tempdir()?;
    let recipe = Recipe {
        program: args.aplomb.clone(),
        directory: place.path().join("data"),
        keeps: args.keep,
        largest_file: None,
    };
    let running = recipe.start().await?;
    let figures = run(&recipe.kubeconfig(), &plan).await?;
    running.kill().await?;
    say("box", &plan, &figures);
    if let Some(other) = &args.beside {
        let others = run(other, &plan).await?;
        say("the other", &plan, &others);
        let ratio = |a: f64, b: f64| a / b.max(f64::EPSILON);
        println!(
            "ratio of the other to the box: p50 {:.1}, p99 {:.1}",
            ratio(others.p50.as_secs_f64(), figures.p50.as_secs_f64()),
            ratio(others.p99.as_secs_f64(), figures.p99.as_secs_f64())
        );
    }
    Ok(())
}

fn say(name: &str, plan: &Plan, figures: &Figures) {
    println!(
        "watchers: {} on {name}, {} writes at {:.0}/s, {} events each seen once and in order, \
         delivery p50 {:.1} ms, p99 {:.1} ms",
        plan.watchers,
        figures.writes,
        figures.writes as f64 / figures.took.as_secs_f64(),
        figures.events,
        figures.p50.as_secs_f64() * 1000.0,
        figures.p99.as_secs_f64() * 1000.0
    );
}

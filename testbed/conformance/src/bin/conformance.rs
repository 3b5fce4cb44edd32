//! The `conformance` command: runs the suite and reports.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use aplomb_conformance::case::Case;
use aplomb_conformance::real::Real;
use aplomb_conformance::report::{Outcome, Report};
use aplomb_conformance::sim::InBox;
use aplomb_conformance::{cases, runner, self_test};
use aplomb_controlplane::Binaries;
use clap::{Parser, ValueEnum};

/// Runs the conformance suite on the box and on the real kube-apiserver.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Where to run.
    #[arg(long, value_enum, default_value = "both")]
    server: Servers,
    /// Only cases whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Where the JSON report goes.
    #[arg(long, default_value = "target/conformance.json")]
    report: PathBuf,
    /// Also the cases that take minutes.
    #[arg(long)]
    long: bool,
    /// Break each rule of the box in turn and expect cases to fail.
    #[arg(long)]
    self_test: bool,
    /// Say from a report how many cases ran where, and stop.
    #[arg(long, value_name = "FILE")]
    count: Option<PathBuf>,
    /// Name the cases and stop.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Servers {
    Box,
    Real,
    Both,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Some(path) = &args.count {
        println!("{}", Report::read(path)?.counts());
        return Ok(ExitCode::SUCCESS);
    }
    if args.self_test {
        let (seen, missed) = self_test::run().await?;
        println!("{seen} passed, {missed} failed");
        return Ok(if missed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    let chosen = choose(&args);
    if args.list {
        chosen.iter().for_each(|case| println!("{}", case.name));
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(!chosen.is_empty(), "no case matches");
    let report = run(&args, &chosen).await?;
    report.write(&args.report)?;
    Ok(conclude(&Report::read(&args.report)?))
}

fn choose(args: &Args) -> Vec<Case> {
    let wanted = |case: &Case| {
        (args.long || !case.long)
            && args
                .filter
                .as_ref()
                .is_none_or(|text| case.name.contains(text.as_str()))
    };
    cases::all().into_iter().filter(wanted).collect()
}

async fn run(args: &Args, chosen: &[Case]) -> Result<Report> {
    let want_real = match args.server {
        Servers::Box => false,
        Servers::Real => true,
        Servers::Both => Binaries::available()?,
    };
    let real = if want_real { Some(Real::side().await?) } else { None };
    let boxed = if args.server == Servers::Real {
        None
    } else {
        Some(InBox::side().await?)
    };
    runner::run(chosen, boxed.as_ref(), real.as_ref()).await
}

fn conclude(report: &Report) -> ExitCode {
    for entry in report.cases.iter().filter(|entry| entry.result == Outcome::Failed) {
        println!("FAILED {} on {}: {}", entry.case, entry.server, entry.detail);
    }
    println!("{}", report.summary());
    let failed = report.count("box", Outcome::Failed) + report.count("real", Outcome::Failed);
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

//! Shows that a run is a function of its seed: each of N seeds is run twice, the traces are
//! compared byte by byte, and the first differing line is printed if there is one.
//!
//! `make seeds N=1000`. With `--plant hash-order` the runs depend on the order of a hash map, and
//! the comparison has to find it. Seeds are shared out among processes, one for each core, since
//! worlds of one process take turns.

#[path = "../tests/common"]
#[allow(dead_code, unreachable_pub, reason = "the tests use another part of it")]
mod common {
    pub mod operator;
    pub mod scenario;
}

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use aplomb_simulation::trace::Difference;

use clap::{Parser, ValueEnum};
use common::scenario::{self, Plant};
use serde::{Deserialize, Serialize};

const LEAST_REQUESTS: usize = 500;

#[derive(Parser)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    n: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Put a dependence on something else than the seed into the runs.
    #[arg(long)]
    plant: Option<Planted>,
    /// Print the trace of the first seed, and do nothing else.
    #[arg(long)]
    show: bool,
    /// Check every STEP-th seed in this process and print a report for each.
    #[arg(long, hide = true)]
    step: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Planted {
    HashOrder,
}

/// What one seed gave.
#[derive(Serialize, Deserialize)]
struct Report {
    seed: u64,
    fingerprint: String,
    requests: usize,
    faults: usize,
    failure: Option<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plant = args.plant.map(|Planted::HashOrder| Plant::HashOrder);
    if args.show {
        scenario::run(args.first, plant)
            .trace
            .iter()
            .for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    if let Some(step) = args.step {
        for seed in (args.first..args.first + args.n).step_by(step.max(1) as usize) {
            let report = serde_json::to_string(&check(seed, plant)).expect("a report is JSON");
            println!("{report}");
        }
        return ExitCode::SUCCESS;
    }
    #[allow(clippy::disallowed_methods, reason = "what is measured is how long it really takes")]
    let begin = Instant::now();
    match share_out(&args) {
        Ok(reports) => summarize(&reports, args.n, begin.elapsed().as_secs_f64()),
        Err(error) => {
            eprintln!("seeds: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(seed: u64, plant: Option<Plant>) -> Report {
    let first = scenario::run(seed, plant);
    let second = scenario::run(seed, plant);
    let outcome = first.value;
    let failure = if let Some(difference) = Difference::first(&first.trace, &second.trace) {
        Some(difference.to_string())
    } else if outcome.requests < LEAST_REQUESTS {
        Some(format!("only {} requests", outcome.requests))
    } else if !outcome.wrong.is_empty() {
        Some(format!("did not converge: {}", outcome.wrong.join("; ")))
    } else {
        None
    };
    let (requests, faults) = (outcome.requests, outcome.faults);
    Report {
        seed,
        fingerprint: fingerprint(&first.trace),
        requests,
        faults,
        failure,
    }
}

/// Checks the seeds in as many processes as there are cores.
fn share_out(args: &Args) -> io::Result<Vec<Report>> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let workers = (0..cores.min(args.n)).map(|worker| start(args, worker, cores));
    let workers = workers.collect::<io::Result<Vec<Child>>>()?;
    let mut reports = Vec::new();
    for mut worker in workers {
        let output = worker.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        for line in BufReader::new(output).lines() {
            reports.push(serde_json::from_str::<Report>(&line?)?);
        }
        worker.wait()?;
    }
    reports.sort_by_key(|report| report.seed);
    Ok(reports)
}

fn start(args: &Args, worker: u64, cores: u64) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--first", &(args.first + worker).to_string()]);
    command.args(["--n", &(args.n - worker).to_string(), "--step", &cores.to_string()]);
    if args.plant.is_some() {
        command.args(["--plant", "hash-order"]);
    }
    command.stdout(Stdio::piped()).spawn()
}

fn summarize(reports: &[Report], asked: u64, seconds: f64) -> ExitCode {
    let failures: Vec<&Report> = reports.iter().filter(|report| report.failure.is_some()).collect();
    for report in failures.iter().take(5) {
        let why = report.failure.as_deref().unwrap_or_default();
        println!("seed {}: {why}", report.seed);
    }
    let distinct = reports
        .iter()
        .map(|report| &report.fingerprint)
        .collect::<BTreeSet<_>>()
        .len();
    let least = reports.iter().map(|report| report.requests).min().unwrap_or_default();
    let requests: usize = reports.iter().map(|report| report.requests).sum();
    let faults: usize = reports.iter().map(|report| report.faults).sum();
    println!(
        "seeds: {} run twice, {} failed, {distinct} distinct traces, at least {least} requests each, \
         {requests} requests and {faults} faults in one pass, {seconds:.1} s",
        reports.len(),
        failures.len(),
    );
    let complete = reports.len() as u64 == asked && distinct == reports.len();
    if failures.is_empty() && complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// FNV-1a over the lines: enough to tell the traces of two seeds apart.
fn fingerprint(lines: &[String]) -> String {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

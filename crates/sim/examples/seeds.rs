//! Shows that a run is a function of its seed: each of N seeds is run twice, the traces are
//! compared byte by byte, and the first differing line is printed if there is one.
//!
//! `make seeds N=1000`. With `--plant hash-order` the runs depend on the order of a hash map, and
//! the comparison has to find it.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use aplomb_sim::trace::Difference;
use clap::{Parser, ValueEnum};
use common::scenario::{self, Plant};

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
    /// Print the trace of the first seed.
    #[arg(long)]
    show: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Planted {
    HashOrder,
}

/// What one seed gave.
struct Report {
    seed: u64,
    digest: Vec<String>,
    requests: usize,
    faults: usize,
    failure: Option<String>,
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
        digest: first.trace,
        requests,
        faults,
        failure,
    }
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
    #[allow(
        clippy::disallowed_methods,
        reason = "what is measured is how long it really takes"
    )]
    let begin = Instant::now();
    let reports = run_all(&args, plant);
    let failures: Vec<&Report> = reports
        .iter()
        .filter(|report| report.failure.is_some())
        .collect();
    for report in failures.iter().take(5) {
        let why = report.failure.as_deref().unwrap_or_default();
        println!("seed {}: {why}", report.seed);
    }
    let distinct = reports
        .iter()
        .map(|report| &report.digest)
        .collect::<BTreeSet<_>>()
        .len();
    let least = reports
        .iter()
        .map(|report| report.requests)
        .min()
        .unwrap_or_default();
    let requests: usize = reports.iter().map(|report| report.requests).sum();
    let faults: usize = reports.iter().map(|report| report.faults).sum();
    println!(
        "seeds: {} run twice, {} failed, {distinct} distinct traces, {requests} requests and {faults} \
         faults in one pass, at least {least} requests each, {:.1} s",
        reports.len(),
        failures.len(),
        begin.elapsed().as_secs_f64(),
    );
    if failures.is_empty() && distinct == reports.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the seeds on as many threads as there are cores; each run has a thread of its own anyway.
fn run_all(args: &Args, plant: Option<Plant>) -> Vec<Report> {
    let next = AtomicU64::new(args.first);
    let end = args.first + args.n;
    let reports = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let mut report = check(seed, plant);
                    // A digest of the trace is enough to tell two seeds apart.
                    report.digest = vec![fingerprint(&report.digest)];
                    reports.lock().expect("no report panics").push(report);
                }
            });
        }
    });
    let mut reports = reports.into_inner().expect("no report panics");
    reports.sort_by_key(|report| report.seed);
    reports
}

fn fingerprint(lines: &[String]) -> String {
    let bytes = lines.iter().flat_map(|line| line.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}-{}", lines.len())
}

//! Requests per second and memory, the box beside a real kube-apiserver in one run. It fails when
//! creates and applies are not ten times as fast; the other figures are only printed.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use aplomb_conformance::bench::{self, Load, Memory, Peer, Rates, Resting, VERBS, resident};
use clap::Parser;

/// What is promised of creates and applies.
const PROMISED: f64 = 10.0;
const MEBIBYTE: u64 = 1024 * 1024;

/// Requests per second and memory, the box beside a real kube-apiserver.
#[derive(Debug, Parser)]
struct Args {
    /// Objects of two kilobytes
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Objects per slice; the servers take turns
    #[arg(long, default_value_t = 500)]
    slice: usize,
    /// Lists of all objects
    #[arg(long, default_value_t = 5)]
    lists: usize,
    /// Gives client and servers all cores; how long an idle one takes to wake is in the figures then
    #[arg(long)]
    spread: bool,
    /// Serves a box instead, with its kubeconfig here
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Some(kubeconfig) = &args.serve {
        bench::serve(kubeconfig).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.spread {
        bench::share_one_core()?;
    }
    let mut peers = bench::start(&std::env::current_exe()?).await?;
    heading(args.spread);
    let kept = measure(&mut peers, &args)?;
    if !kept {
        println!("FAILED: creates and applies are promised to be {PROMISED} times as fast");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn heading(spread: bool) {
    let cores = if spread { "all cores" } else { "one core" };
    println!("one client, one connection, one request at a time, {cores}");
    println!("{:<16} {:>10} {:>10} {:>8}", "PER SECOND", "BOX", "REAL", "RATIO");
}

/// Prints every figure as it is known; whether the promised ones were kept.
fn measure(peers: &mut [Peer; 2], args: &Args) -> Result<bool> {
    let mut memory = [Memory::default(); 2];
    for (peer, memory) in peers.iter().zip(&mut memory) {
        memory.before = resident(&peer.processes)?;
    }
    let mut kept = true;
    for verb in VERBS {
        if verb == "update" {
            let rates = lists(peers, args)?;
            print(&format!("list of {}", args.objects), &rates);
        }
        let rates = alternate(peers, verb, args)?;
        let ratio = print(verb, &rates);
        kept &= !matches!(verb, "create" | "apply") || ratio >= PROMISED;
        if verb == "create" {
            for (peer, memory) in peers.iter().zip(&mut memory) {
                memory.after = resident(&peer.processes)?;
            }
        }
    }
    report_memory(&memory, args.objects);
    Ok(kept)
}

fn alternate(peers: &mut [Peer; 2], verb: &str, args: &Args) -> Result<[Rates; 2]> {
    let mut rates = [Rates::default(); 2];
    for start in (0..args.objects).step_by(args.slice.max(1)) {
        let slice = start..(start + args.slice).min(args.objects);
        in_turn(peers, |turn, peer| {
            Load::new(&mut peer.connection).slice(verb, slice.clone(), &mut rates[turn])
        })?;
    }
    Ok(rates)
}

fn lists(peers: &mut [Peer; 2], args: &Args) -> Result<[Rates; 2]> {
    let mut rates = [Rates::default(); 2];
    for _ in 0..args.lists {
        in_turn(peers, |turn, peer| {
            let found = Load::new(&mut peer.connection).list(&mut rates[turn])?;
            ensure!(found >= args.objects, "{} lists {found} objects", peer.name);
            Ok(())
        })?;
    }
    Ok(rates)
}

/// Asks one server after the other; the one that is not asked rests.
fn in_turn(peers: &mut [Peer; 2], mut ask: impl FnMut(usize, &mut Peer) -> Result<()>) -> Result<()> {
    let [ours, theirs] = peers;
    {
        let _resting = Resting::new(&theirs.rests)?;
        ask(0, ours)?;
    }
    let _resting = Resting::new(&ours.rests)?;
    ask(1, theirs)
}

fn print(what: &str, rates: &[Rates; 2]) -> f64 {
    let [ours, theirs] = [rates[0].per_second(), rates[1].per_second()];
    let ratio = ours / theirs;
    println!("{what:<16} {ours:>10.1} {theirs:>10.1} {ratio:>7.1}x");
    ratio
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn report_memory(memory: &[Memory; 2], objects: usize) {
    println!();
    println!("{:<16} {:>10} {:>10} {:>8}", "MEMORY, MiB", "BOX", "REAL", "RATIO");
    let row = |what: &str, of: fn(&Memory) -> u64| {
        let [ours, theirs] = [of(&memory[0]), of(&memory[1])];
        println!(
            "{what:<16} {:>10} {:>10} {:>7.2}x",
            ours / MEBIBYTE,
            theirs / MEBIBYTE,
            ours as f64 / theirs.max(1) as f64
        );
    };
    row("empty", |memory| memory.before);
    row(&format!("{objects} of 2 KB"), Memory::grown);
}

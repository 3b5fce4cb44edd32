//! Requests through a tunnel, compared with a direct connection, a plain reverse proxy and two known
//! tunnels, in one run on one machine: only the ratios apply elsewhere.
//!
//! `make bench-tunnel`. rathole and bore are expected in the directory in `APLOMB_PEERS`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the bench measures real time")]

mod load;
mod peers;
mod proxy;
mod service;
mod tunnel_setup;

use std::time::Duration;

use anyhow::Result;

use load::Figures;

/// Every way is measured in turn, this often; the median counts.
const ROUNDS: usize = 3;
const ROUND_TIME: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 16;

/// A way to the origin.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// ip:port to connect to, and the Host header.
    pub(crate) address: String,
    pub(crate) host: String,
}

impl Subject {
    pub(crate) fn new(name: &'static str, address: String) -> Self {
        let host = address.clone();
        Self { name, address, host }
    }
}

fn main() -> Result<()> {
    // The argument that cargo passes to every bench; `--test` only checks that it starts.
    if std::env::args().any(|arg| arg == "--test") {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let origin = service::start()?;
    let (ours, _ours) = tunnel_setup::start(dir.path(), origin)?;
    let (peers, _peers) = peers::start(dir.path(), origin)?;
    let mut ways = vec![
        Subject::new("direct", format!("127.0.0.1:{origin}")),
        Subject::new("plain reverse proxy", format!("127.0.0.1:{}", proxy::start(origin)?)),
        ours,
    ];
    ways.extend(peers);
    let mut figures: Vec<Vec<Figures>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (way, figures) in ways.iter().zip(&mut figures) {
            figures.push(load::run(way, CONNECTIONS, ROUND_TIME)?);
        }
    }
    print_figures(&ways, figures);
    Ok(())
}

fn print_figures(ways: &[Subject], figures: Vec<Vec<Figures>>) {
    let medians: Vec<Figures> = figures.into_iter().map(load::median).collect();
    println!("{CONNECTIONS} connections, {ROUNDS} rounds of {ROUND_TIME:?}, medians");
    println!(
        "{:<24} {:>10} {:>9} {:>9} {:>7}",
        "", "requests/s", "p50", "p99", "failed"
    );
    for (way, figures) in ways.iter().zip(&medians) {
        println!(
            "{:<24} {:>10.0} {:>9.2?} {:>9.2?} {:>7}",
            way.name, figures.per_second, figures.p50, figures.p99, figures.failed
        );
    }
    let ours = &medians[2];
    let ratios = ways.iter().zip(&medians).filter(|(way, _)| way.name != ways[2].name);
    let ratios = ratios.map(|(way, other)| {
        let rate = ours.per_second / other.per_second;
        let tail = ours.p99.as_secs_f64() / other.p99.as_secs_f64();
        format!("{rate:.2} and {tail:.2} of {}", way.name)
    });
    let ratios: Vec<_> = ratios.collect();
    println!("tunnel: requests/s and p99 are {}", ratios.join("; "));
}

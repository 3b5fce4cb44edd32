//! Tunnels end to end: a real kube-apiserver with its audit log; operator, gateways and agents as processes
//! with their own ServiceAccounts; real iroh on loopback; driven with kubectl, curl and a stock
//! WebSocket client.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test tunnel_on_real [-- [--long] [ACT]...]`. Times are printed; limits that
//! fail leave room for a busy machine.
#![forbid(unsafe_code)]

mod audit;
mod authority;
mod changes;
#[path = "../common/chart.rs"]
mod chart;
mod connect;
mod crashes;
mod curl;
mod fixtures;
mod gateways;
mod guards;
#[path = "../common/helm.rs"]
mod helm;
mod idle;
mod install;
#[path = "../common/kubectl.rs"]
mod kubectl;
mod leases;
mod listener;
mod looks;
mod many;
mod origin;
mod origins;
mod peer;
mod plain;
mod prober;
mod process;
mod protocols;
#[path = "../common/rights.rs"]
mod rights;
mod stage;

use std::process::ExitCode;

use anyhow::Result;

use origin::Origin;
use process::Process;
use stage::Stage;

/// The namespace of most tests, with the agent and its origin.
pub(crate) const HOME: &str = "home";
/// An agent without an HTTPProxy of its own.
pub(crate) const ALONE: &str = "--connector-only";

#[derive(Default)]
pub(crate) struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    pub(crate) fn note(&mut self, what: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("ok      {what}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAILED  {what}\n        {error:#}");
            }
        }
    }
}

/// The stage that all acts share, and an agent with its origin.
pub(crate) struct Play {
    pub(crate) stage: Stage,
    pub(crate) origin: Origin,
    pub(crate) agent: Process,
}

impl Play {
    /// http://localhost:PORT of the origin.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://localhost:{}", self.origin.port)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let long = args.iter().any(|arg| arg == "--long");
    let acts: Vec<&str> = args
        .iter()
        .map(String::as_str)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let mut tally = Tally::default();
    let mut stage = Stage::set().await?;
    let play = match install::act(&mut stage, &mut tally).await {
        Ok((origin, agent)) => {
            let mut play = Play {
                stage,
                origin,
                agent,
            };
            perform(&mut play, &mut tally, &acts, long).await;
            play.stage
        }
        Err(error) => {
            tally.note("the stage is set", Err(error));
            stage
        }
    };
    if tally.failed > 0 {
        play.show_logs();
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(u8::from(tally.failed > 0)))
}

/// Every act, or the requested ones.
async fn perform(play: &mut Play, tally: &mut Tally, acts: &[&str], long: bool) {
    let wanted = |act: &str| acts.is_empty() || acts.contains(&act);
    if wanted("connect") {
        connect::act(play, tally).await;
    }
    if wanted("looks") {
        looks::act(play, tally).await;
    }
    if wanted("protocols") {
        protocols::act(play, tally).await;
    }
    if wanted("origins") {
        origins::act(play, tally).await;
    }
    if wanted("listener") {
        listener::act(play, tally).await;
    }
    if wanted("changes") {
        changes::act(play, tally).await;
    }
    if wanted("guards") {
        guards::act(play, tally).await;
    }
    if wanted("plain") {
        plain::act(play, tally).await;
    }
    if wanted("leases") {
        leases::act(play, tally).await;
    }
    if wanted("many") {
        many::act(play, tally).await;
    }
    if wanted("crashes") {
        crashes::act(play, tally).await;
    }
    if wanted("gateways") {
        gateways::act(play, tally).await;
    }
    if long && wanted("idle") {
        idle::act(play, tally).await;
    }
    tally.note(
        "nothing was forbidden, nothing conflicted",
        audit::clean(&play.stage),
    );
    if acts.is_empty() {
        tally.note("no right is missing or unused", audit::settle(&play.stage));
    }
}

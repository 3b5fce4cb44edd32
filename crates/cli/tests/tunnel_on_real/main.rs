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
mod cli_output;
mod connect;
mod connector_only;
mod crashes;
mod curl;
mod fixtures;
mod gateways;
#[path = "../common/helm.rs"]
mod helm;
mod idle;
mod install;
mod isolation;
#[path = "../common/kubectl.rs"]
mod kubectl;
mod leases;
mod listener;
mod origin;
mod origins;
mod peer;
mod prober;
mod process;
mod protocols;
#[path = "../common/rights.rs"]
mod rights;
mod scale;
mod stage;

use std::process::ExitCode;

use anyhow::Result;

use origin::Origin;
use process::Process;
use stage::Stage;

/// The namespace of most tests, with the agent and its origin.
pub(crate) const TENANT: &str = "home";
/// An agent without an HTTPProxy of its own.
pub(crate) const CONNECTOR_ONLY: &str = "--connector-only";

#[derive(Default)]
pub(crate) struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    pub(crate) fn record(&mut self, what: &str, outcome: Result<()>) {
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
pub(crate) struct TestRun {
    pub(crate) stage: Stage,
    pub(crate) origin: Origin,
    pub(crate) agent: Process,
}

impl TestRun {
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
    let mut stage = Stage::set_up().await?;
    let play = match install::run(&mut stage, &mut tally).await {
        Ok((origin, agent)) => {
            let mut play = TestRun { stage, origin, agent };
            run_acts(&mut play, &mut tally, &acts, long).await;
            play.stage
        }
        Err(error) => {
            tally.record("the stage is set", Err(error));
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
async fn run_acts(play: &mut TestRun, tally: &mut Tally, acts: &[&str], long: bool) {
    let wanted = |act: &str| acts.is_empty() || acts.contains(&act);
    if wanted("connect") {
        connect::run(play, tally).await;
    }
    if wanted("looks") {
        cli_output::run(play, tally).await;
    }
    if wanted("protocols") {
        protocols::run(play, tally, long).await;
    }
    if wanted("origins") {
        origins::run(play, tally).await;
    }
    if wanted("listener") {
        listener::run(play, tally).await;
    }
    if wanted("changes") {
        changes::run(play, tally).await;
    }
    if wanted("guards") {
        isolation::run(play, tally).await;
    }
    if wanted("plain") {
        connector_only::run(play, tally).await;
    }
    if wanted("leases") {
        leases::run(play, tally).await;
    }
    if wanted("many") {
        scale::run(play, tally).await;
    }
    if wanted("crashes") {
        crashes::run(play, tally).await;
    }
    if wanted("gateways") {
        gateways::run(play, tally).await;
    }
    if long && wanted("idle") {
        idle::run(play, tally).await;
    }
    tally.record(
        "nothing was forbidden, nothing conflicted",
        audit::check_no_conflicts(&play.stage),
    );
    if acts.is_empty() {
        tally.record("no right is missing or unused", audit::check_rights(&play.stage));
    }
}

//! The egress operator end to end: a real kube-apiserver, `aplomb sim hetzner` over HTTP, installed from
//! `charts/aplomb`, with its own ServiceAccount, driven with kubectl.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test egress_on_real`. Times are printed, never asserted.
#![forbid(unsafe_code)]

mod account;
#[path = "../common/chart.rs"]
mod chart;
mod fixtures;
#[path = "../common/helm.rs"]
mod helm;
#[path = "../common/kubectl.rs"]
mod kubectl;
mod leak;
#[path = "../common/process.rs"]
mod process;
#[path = "../common/rights.rs"]
mod rights;
mod stage;
mod steps;
mod trouble;

use std::process::ExitCode;

use anyhow::Result;

use stage::Stage;

#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn note(&mut self, what: &str, outcome: Result<()>) {
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let mut stage = Stage::set().await?;
    let mut tally = Tally::default();
    play(&mut stage, &mut tally).await;
    if tally.failed > 0 {
        stage.show_logs();
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(u8::from(tally.failed > 0)))
}

async fn play(stage: &mut Stage, tally: &mut Tally) {
    let t = tally;
    t.note(
        "helm template charts/aplomb | kubectl apply -f -",
        steps::install(stage),
    );
    t.note("it has the rights it needs, no more", account::bounds(stage));
    t.note("the samples are valid", steps::samples(stage));
    t.note("two replicas start", steps::start(stage).await);
    t.note("kubectl wait for Ready", steps::first(stage).await);
    t.note(
        "only the leader shows the gateway",
        steps::metrics(stage).await,
    );
    t.note("kubectl cordon moves it", steps::cordon(stage).await);
    t.note(
        "a lost candidate label moves it",
        steps::unlabel(stage).await,
    );
    t.note("kubectl delete node moves it", steps::delete(stage).await);
    t.note("NotReady moves it", steps::not_ready(stage).await);
    t.note(
        "a removed gateway label returns",
        steps::relabel(stage).await,
    );
    t.note("a hold freezes it", trouble::hold(stage).await);
    t.note(
        "a node that fails probes is left",
        trouble::probe(stage).await,
    );
    t.note(
        "an unassigned IP is assigned",
        trouble::unassigned(stage).await,
    );
    t.note(
        "a 429 leaves the old gateway",
        trouble::throttled(stage).await,
    );
    t.note("a new token is picked up", trouble::rotate(stage).await);
    t.note(
        "a stopped leader hands over",
        trouble::hand_over(stage).await,
    );
    t.note("a killed leader is replaced", trouble::kill(stage).await);
    t.note("Events report it", steps::events(stage));
    t.note("no right is missing or unused", account::settle(stage));
    t.note(
        "no part of the token is anywhere",
        leak::search(stage).await,
    );
}

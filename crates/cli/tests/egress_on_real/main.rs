//! The egress operator end to end: a real kube-apiserver, `aplomb sim hetzner` over HTTP, installed from
//! `charts/aplomb`, with its own ServiceAccount, driven with kubectl.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test egress_on_real`. Times are printed, never asserted.
#![forbid(unsafe_code)]

#[path = "../common/chart.rs"]
mod chart;
mod failures;
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
mod rights_check;
mod stage;
mod steps;

use std::process::ExitCode;

use anyhow::Result;

use stage::Stage;

#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn record(&mut self, what: &str, outcome: Result<()>) {
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
    let mut stage = Stage::set_up().await?;
    let mut tally = Tally::default();
    run_steps(&mut stage, &mut tally).await;
    if tally.failed > 0 {
        stage.show_logs();
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(u8::from(tally.failed > 0)))
}

async fn run_steps(stage: &mut Stage, tally: &mut Tally) {
    let t = tally;
    t.record(
        "helm template charts/aplomb | kubectl apply -f -",
        steps::install(stage),
    );
    t.record("it has the rights it needs, no more", rights_check::check_bounds(stage));
    t.record("the samples are valid", steps::apply_samples(stage));
    t.record("two replicas start", steps::start_operators(stage).await);
    t.record("kubectl wait for Ready", steps::check_first_assignment(stage).await);
    t.record("only the leader shows the gateway", steps::check_metrics(stage).await);
    t.record("kubectl cordon moves it", steps::cordon_gateway(stage).await);
    t.record("a lost candidate label moves it", steps::unlabel_node(stage).await);
    t.record("kubectl delete node moves it", steps::delete_node(stage).await);
    t.record("NotReady moves it", steps::fail_gateway(stage).await);
    t.record("a removed gateway label returns", steps::check_labels(stage).await);
    t.record("a hold freezes it", failures::check_hold(stage).await);
    t.record("a node that fails probes is left", failures::check_probe(stage).await);
    t.record("an unassigned IP is assigned", failures::check_unassigned(stage).await);
    t.record("a 429 leaves the old gateway", failures::check_throttling(stage).await);
    t.record("a new token is picked up", failures::rotate_token(stage).await);
    t.record("a stopped leader hands over", failures::check_handover(stage).await);
    t.record("a killed leader is replaced", failures::kill_leader(stage).await);
    t.record("Events report it", steps::check_events(stage));
    t.record("no right is missing or unused", rights_check::check_rights(stage));
    t.record("no part of the token is anywhere", leak::search_secrets(stage).await);
}

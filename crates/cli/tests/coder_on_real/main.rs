//! The Coder operator end to end: a real kube-apiserver; `aplomb sim coderd` over HTTP, which also
//! simulates the pods; installed from `charts/aplomb`, with its own ServiceAccount, driven with
//! kubectl.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test coder_on_real`. Times are printed, never asserted.
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
mod proxies;
mod refusals;
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

#[rustfmt::skip]
async fn run_steps(stage: &mut Stage, t: &mut Tally) {
    t.record("helm template charts/aplomb | kubectl apply -f -", steps::install(stage));
    t.record("it has the rights it needs, no more", rights_check::check_bounds(stage));
    t.record("the samples are valid", steps::apply_samples(stage));
    t.record("names that coderd rejects are rejected", refusals::check_names(stage));
    t.record("a spec without a server, or with two, is rejected", refusals::check_servers(stage));
    t.record("the operator starts", steps::start_operator(stage).await);
    t.record("kubectl wait for Ready", steps::create(stage).await);
    t.record("kubectl get cprov shows its state", steps::check_columns(stage));
    t.record("the annotation rotates the key, without an outage", steps::rotate_key(stage).await);
    t.record("other tags rotate the key, without an outage", steps::change_tags(stage).await);
    t.record("another secretName moves the key and deletes the old Secret", steps::change_server(stage).await);
    t.record("killed during a rotation, the next one finishes it", steps::kill_operator(stage).await);
    t.record("throttled: few attempts, one status write", failures::check_throttling(stage).await);
    t.record("it recovers when the server accepts calls", failures::check_recovery(stage).await);
    t.record("a manually deleted key is replaced", failures::check_self_healing(stage).await);
    t.record("a new token is picked up", failures::replace_token(stage).await);
    t.record("a workspace proxy registers", proxies::register(stage).await);
    t.record("a workspace proxy gets a new token", proxies::replace_token(stage).await);
    t.record("a workspace proxy is deleted", proxies::delete(stage).await);
    t.record("a deletion waits for the server", failures::check_deletion_waits(stage).await);
    t.record("an abandoned deletion does not, and sends an Event", failures::check_abandoned(stage).await);
    t.record("kubectl delete deletes the key", steps::delete(stage).await);
    t.record("Events report it", steps::check_events(stage));
    t.record("no right is missing or unused", rights_check::check_rights(stage));
    t.record("no token or key is anywhere", leak::search_secrets(stage).await);
    t.record("it exits on SIGTERM", steps::stop_operator(stage));
}

//! The Coder operator end to end: a real kube-apiserver, `aplomb sim coderd` over HTTP, which plays the
//! pods too, installed from `charts/aplomb`, running as its own ServiceAccount, driven with kubectl as a
//! person would.
//!
//! Needs the programs of `controlplane build`, so that it runs only when it is asked for by name:
//! `cargo test -p aplomb-cli --test coder_on_real`. Times are printed, never asserted.
#![forbid(unsafe_code)]

mod rights_check;
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
mod proxies;
mod refusals;
#[path = "../common/rights.rs"]
mod rights;
mod stage;
mod steps;
mod failures;

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
    t.record("it may do what it needs, no more", rights_check::check_bounds(stage));
    t.record("the samples are valid", steps::apply_samples(stage));
    t.record("names that coderd would refuse are refused", refusals::check_names(stage));
    t.record("a spec without a server, or with two, is refused", refusals::check_servers(stage));
    t.record("the operator starts", steps::start_operator(stage).await);
    t.record("kubectl wait for Ready", steps::create(stage).await);
    t.record("kubectl get cprov tells how it is", steps::check_columns(stage));
    t.record("the annotation rotates the key, without an outage", steps::rotate_key(stage).await);
    t.record("other tags rotate the key, without an outage", steps::change_tags(stage).await);
    t.record("another secretName moves the key and deletes the former Secret", steps::change_server(stage).await);
    t.record("killed in a rotation, the next one finishes it", steps::kill_operator(stage).await);
    t.record("throttled: few attempts, one status write", failures::check_throttling(stage).await);
    t.record("it recovers when the server lets it", failures::check_recovery(stage).await);
    t.record("a key that was deleted by hand is replaced", failures::check_self_healing(stage).await);
    t.record("a new token is picked up", failures::replace_token(stage).await);
    t.record("a workspace proxy registers", proxies::register(stage).await);
    t.record("a workspace proxy is given a new token", proxies::replace_token(stage).await);
    t.record("a workspace proxy is taken back", proxies::delete(stage).await);
    t.record("a deletion waits for the server", failures::check_deletion_waits(stage).await);
    t.record("an abandoned deletion does not, and is told of", failures::check_abandoned(stage).await);
    t.record("kubectl delete takes the key back", steps::delete(stage).await);
    t.record("Events tell of it", steps::check_events(stage));
    t.record("no right is missing or unused", rights_check::check_rights(stage));
    t.record("no token or key is anywhere", leak::search_secrets(stage).await);
    t.record("it ends when it is asked to", steps::stop_operator(stage));
}

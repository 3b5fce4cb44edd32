//! The Coder operator end to end: a real kube-apiserver; `aplomb sim coderd` over HTTP, which also
//! simulates the pods; installed from `charts/aplomb`, with its own ServiceAccount, driven with
//! kubectl.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test coder_on_real`. Times are printed, never asserted.
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
mod proxies;
mod refusals;
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

#[rustfmt::skip]
async fn play(stage: &mut Stage, t: &mut Tally) {
    t.note("helm template charts/aplomb | kubectl apply -f -", steps::install(stage));
    t.note("it has the rights it needs, no more", account::bounds(stage));
    t.note("the samples are valid", steps::samples(stage));
    t.note("names that coderd rejects are rejected", refusals::names(stage));
    t.note("a spec without a server, or with two, is rejected", refusals::servers(stage));
    t.note("the operator starts", steps::start(stage).await);
    t.note("kubectl wait for Ready", steps::create(stage).await);
    t.note("kubectl get cprov shows its state", steps::columns(stage));
    t.note("the annotation rotates the key, without an outage", steps::rotate(stage).await);
    t.note("other tags rotate the key, without an outage", steps::tags(stage).await);
    t.note("another secretName moves the key and deletes the old Secret", steps::moved(stage).await);
    t.note("killed during a rotation, the next one finishes it", steps::killed(stage).await);
    t.note("throttled: few attempts, one status write", trouble::throttled(stage).await);
    t.note("it recovers when the server accepts calls", trouble::recovers(stage).await);
    t.note("a manually deleted key is replaced", trouble::heals(stage).await);
    t.note("a new token is picked up", trouble::new_token(stage).await);
    t.note("a workspace proxy registers", proxies::register(stage).await);
    t.note("a workspace proxy gets a new token", proxies::retoken(stage).await);
    t.note("a workspace proxy is deleted", proxies::delete(stage).await);
    t.note("a deletion waits for the server", trouble::deletion_waits(stage).await);
    t.note("an abandoned deletion does not, and sends an Event", trouble::abandoned(stage).await);
    t.note("kubectl delete deletes the key", steps::delete(stage).await);
    t.note("Events report it", steps::events(stage));
    t.note("no right is missing or unused", account::settle(stage));
    t.note("no token or key is anywhere", leak::search(stage).await);
    t.note("it exits on SIGTERM", steps::stop(stage));
}

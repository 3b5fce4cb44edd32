//! The Coder operator end to end: a real kube-apiserver, `aplomb sim coderd` over HTTP, which plays the
//! pods too, installed from `charts/aplomb`, running as its own ServiceAccount, driven with kubectl as a
//! person would.
//!
//! Needs the programs of `controlplane build`, so that it runs only when it is asked for by name:
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
    t.note("it may do what it needs, no more", account::bounds(stage));
    t.note("the samples are valid", steps::samples(stage));
    t.note("names that coderd would refuse are refused", refusals::names(stage));
    t.note("a spec without a server, or with two, is refused", refusals::servers(stage));
    t.note("the operator starts", steps::start(stage).await);
    t.note("kubectl wait for Ready", steps::create(stage).await);
    t.note("kubectl get cprov tells how it is", steps::columns(stage));
    t.note("the annotation rotates the key, without an outage", steps::rotate(stage).await);
    t.note("other tags rotate the key, without an outage", steps::tags(stage).await);
    t.note("another secretName moves the key and deletes the former Secret", steps::moved(stage).await);
    t.note("killed in a rotation, the next one finishes it", steps::killed(stage).await);
    t.note("throttled: few attempts, one status write", trouble::throttled(stage).await);
    t.note("it recovers when the server lets it", trouble::recovers(stage).await);
    t.note("a key that was deleted by hand is replaced", trouble::heals(stage).await);
    t.note("a new token is picked up", trouble::new_token(stage).await);
    t.note("a workspace proxy registers", proxies::register(stage).await);
    t.note("a workspace proxy is given a new token", proxies::retoken(stage).await);
    t.note("a workspace proxy is taken back", proxies::delete(stage).await);
    t.note("a deletion waits for the server", trouble::deletion_waits(stage).await);
    t.note("an abandoned deletion does not, and is told of", trouble::abandoned(stage).await);
    t.note("kubectl delete takes the key back", steps::delete(stage).await);
    t.note("Events tell of it", steps::events(stage));
    t.note("no right is missing or unused", account::settle(stage));
    t.note("no token or key is anywhere", leak::search(stage).await);
    t.note("it ends when it is asked to", steps::stop(stage));
}

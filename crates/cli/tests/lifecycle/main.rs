//! `aplomb run tunnel coder egress` as one process, from start to end: it drains on SIGTERM, converges after kill -9,
//! and hands over between two replicas; on the box and on a real kube-apiserver.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test lifecycle [-- box|real]`. Times are printed.
#![forbid(unsafe_code)]

mod duplicates;
mod flags;
mod metrics;
mod objects;
mod process;
mod server;
mod stage;
mod steps;

use std::process::ExitCode;

use anyhow::Result;

use objects::Wanted;
use stage::Stage;
use steps::StopKind;

#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn record(&mut self, what: &str, outcome: Result<()>) -> bool {
        let Err(error) = outcome else {
            self.passed += 1;
            println!("ok      {what}");
            return true;
        };
        self.failed += 1;
        println!("FAILED  {what}\n        {error:#}");
        false
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    anyhow::ensure!(installed.is_ok(), "a TLS provider was installed before");
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let mut tally = Tally::default();
    for server in ["box", "real"] {
        if asked.is_empty() || asked.iter().any(|it| it == server) {
            println!("on the {server}");
            let mut stage = Stage::set_up(server == "real").await?;
            let before = tally.failed;
            run_steps(&mut stage, &mut tally).await;
            if tally.failed > before {
                stage.show_logs();
            }
        }
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(u8::from(tally.failed > 0)))
}

/// Each act builds on the one before; the first failure ends the test.
async fn run_steps(stage: &mut Stage, t: &mut Tally) {
    let mut wanted = Wanted::default();
    let w = &mut wanted;
    let _played = t.record("the stage is set", objects::install(stage).await)
        && t.record(
            "each flag has an environment name",
            flags::check_environment(stage.dir()),
        )
        && t.record(
            "an admin address in use: one line, 2",
            flags::check_address_in_use(stage),
        )
        && t.record("one process runs all operators", steps::check_start(stage, *w).await)
        && t.record("its metrics are documented", metrics::check_documented(stage).await)
        && t.record(
            "SIGTERM amid work: drained, leases released",
            steps::check_stop(stage, w).await,
        )
        && t.record(
            "kill -9, started under another name",
            steps::check_crash(stage, w, "second").await,
        )
        && t.record(
            "kill -9, started under the same name",
            steps::check_crash(stage, w, "second").await,
        )
        && t.record("a second replica stands by", steps::start_standby(stage, "third").await)
        && t.record(
            "SIGTERM: it hands over",
            steps::check_handover(stage, w, StopKind::Terminated).await,
        )
        && t.record("another stands by", steps::start_standby(stage, "fourth").await)
        && t.record(
            "kill -9: it takes over",
            steps::check_handover(stage, w, StopKind::Killed).await,
        )
        && t.record(
            "calls to other systems were sent once",
            duplicates::check_external_duplicates(stage, *w).await,
        )
        && t.record("every child was made once", duplicates::check_write_duplicates(stage))
        && t.record(
            "no effect outlived its lease",
            duplicates::check_stale_writes(stage).await,
        );
}

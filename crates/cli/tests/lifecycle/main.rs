//! `aplomb run tunnel coder egress` as one process, from start to end: it drains on SIGTERM, converges after kill -9,
//! and hands over between two replicas; on the box and on a real kube-apiserver.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test lifecycle [-- box|real]`. Times are printed.
#![forbid(unsafe_code)]

mod acts;
mod flags;
mod metrics;
mod objects;
mod process;
mod server;
mod stage;
mod twice;

use std::process::ExitCode;

use anyhow::Result;

use acts::How;
use objects::Wanted;
use stage::Stage;

#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn note(&mut self, what: &str, outcome: Result<()>) -> bool {
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
            let mut stage = Stage::set(server == "real").await?;
            let before = tally.failed;
            play(&mut stage, &mut tally).await;
            if tally.failed > before {
                stage.show_logs();
            }
        }
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(u8::from(tally.failed > 0)))
}

/// Each act builds on the one before; the first failure ends the test.
async fn play(stage: &mut Stage, t: &mut Tally) {
    let mut wanted = Wanted::default();
    let w = &mut wanted;
    let _played = t.note("the stage is set", objects::install(stage).await)
        && t.note(
            "each flag has an environment name",
            flags::environment(stage.dir()),
        )
        && t.note(
            "an admin address in use: one line, 2",
            flags::address_in_use(stage),
        )
        && t.note(
            "one process runs all operators",
            acts::start(stage, *w).await,
        )
        && t.note(
            "its metrics are documented",
            metrics::documented_as_served(stage).await,
        )
        && t.note(
            "SIGTERM amid work: drained, leases released",
            acts::stop(stage, w).await,
        )
        && t.note(
            "kill -9, started under another name",
            acts::crash(stage, w, "second").await,
        )
        && t.note(
            "kill -9, started under the same name",
            acts::crash(stage, w, "second").await,
        )
        && t.note(
            "a second replica stands by",
            acts::stand_by(stage, "third").await,
        )
        && t.note(
            "SIGTERM: it hands over",
            acts::hand_over(stage, w, How::Asked).await,
        )
        && t.note("another stands by", acts::stand_by(stage, "fourth").await)
        && t.note(
            "kill -9: it takes over",
            acts::hand_over(stage, w, How::Killed).await,
        )
        && t.note(
            "calls to other systems were sent once",
            twice::outside(stage, *w).await,
        )
        && t.note("every child was made once", twice::inside(stage))
        && t.note("no effect outlived its lease", twice::stale(stage).await);
}

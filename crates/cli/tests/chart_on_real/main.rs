//! The charts end to end: rendered, linted, applied to a real kube-apiserver, rejected where they must be; and a
//! release with live objects that is upgraded from an older one without a failed request, and uninstalled down to
//! what docs/install.md lists.
//!
//! Needs the programs of `controlplane build`, so it runs only on request:
//! `cargo test -p aplomb-cli --test chart_on_real`. Times are printed, never asserted.
#![forbid(unsafe_code)]

#[path = "../common/helm.rs"]
mod helm;
#[path = "../common/kubectl.rs"]
mod kubectl;
mod left;
mod live;
mod older;
#[path = "../common/process.rs"]
mod process;
mod render;
#[path = "../common/rights.rs"]
mod rights;
mod stage;
mod traffic;
mod upgrade;

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
    t.note("helm lint", render::lint(stage));
    t.note("deploy/ matches the chart", render::plain());
    t.note("without an image: an error with the value to set", render::without_an_image(stage));
    t.note("wrong values are rejected by name", render::refused(stage));
    t.note("the accounting finds missing and unused rights", render::accounting());
    t.note("every variant is accepted by a real server", render::variants(stage));
    t.note("an older release, with live objects", upgrade::older(stage).await);
    t.note("view may read our kinds, and no Secret", render::view(stage));
    t.note("the dashboard uses served metrics", render::dashboard(stage).await);
    t.note("helm upgrade: nothing rewritten, no request failed", upgrade::upgrade(stage).await);
    t.note("helm uninstall leaves what docs/install.md lists", left::uninstall(stage).await);
    t.note("a Coder operator for one namespace has the rights it needs", upgrade::namespaced(stage).await);
}

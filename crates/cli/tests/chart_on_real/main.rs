//! The charts end to end: rendered, linted, applied to a real kube-apiserver, refused where they must be; and a
//! release with live objects that is upgraded from an older one without a failed request, and uninstalled down to
//! what docs/install.md says.
//!
//! Needs the programs of `controlplane build`, so that it runs only when it is asked for by name:
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
    t.note("deploy/ is what the chart renders", render::plain());
    t.note("no image, no manifest, and it says what to set", render::without_an_image(stage));
    t.note("wrong values are refused by their names", render::refused(stage));
    t.note("the accounting sees what is missing and what is idle", render::accounting());
    t.note("every variant is accepted by a real server", render::variants(stage));
    t.note("an older release, with live objects", upgrade::older(stage).await);
    t.note("view may see our kinds, and no Secret", render::view(stage));
    t.note("the dashboard asks for what is served", render::dashboard(stage).await);
    t.note("helm upgrade: nothing rewritten, no request failed", upgrade::upgrade(stage).await);
    t.note("helm uninstall leaves what docs/install.md says", left::uninstall(stage).await);
    t.note("a Coder operator for one namespace has the rights it needs", upgrade::namespaced(stage).await);
}

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
mod old_chart;
#[path = "../common/process.rs"]
mod process;
mod render;
#[path = "../common/rights.rs"]
mod rights;
mod stage;
mod traffic;
mod uninstall;
mod upgrade;
mod workloads;

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
    t.record("helm lint", render::check_lint(stage));
    t.record("deploy/ matches the chart", render::check_plain());
    t.record("without an image: an error with the value to set", render::check_missing_image(stage));
    t.record("wrong values are rejected by name", render::check_refused_values(stage));
    t.record("the accounting finds missing and unused rights", render::check_values_documented());
    t.record("every variant is accepted by a real server", render::check_variants(stage));
    t.record("an older release, with live objects", upgrade::install_old_chart(stage).await);
    t.record("view may read our kinds, and no Secret", render::check_view_role(stage));
    t.record("the dashboard uses served metrics", render::check_dashboard(stage).await);
    t.record("helm upgrade: nothing rewritten, no request failed", upgrade::upgrade(stage).await);
    t.record("helm uninstall leaves what docs/install.md lists", uninstall::uninstall(stage).await);
    t.record("a Coder operator for one namespace has the rights it needs", upgrade::check_namespaced_install(stage).await);
}

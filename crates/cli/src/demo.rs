//! `aplomb demo`: reads flags and runs the demo.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use aplomb_demo::{DemoOptions, StoryName};

use crate::args::DemoArgs;
use crate::output::OutputStream;

pub(crate) async fn run(args: DemoArgs, out: &OutputStream) -> Result<ExitCode> {
    ensure!(
        args.speed.is_finite() && args.speed > 0.0,
        "invalid --speed {}; use a number above 0, such as 2 for twice as fast",
        args.speed
    );
    let scripts = match args.script.is_empty() {
        true => StoryName::ALL.to_vec(),
        false => args.script,
    };
    let terminal = !args.json && std::io::stdout().is_terminal();
    aplomb_demo::run(DemoOptions {
        scripts,
        speed: args.speed,
        json: args.json,
        keep: args.keep,
        page: args.page,
        kubeconfig: args.kubeconfig,
        terminal,
        colour: out.has_color(),
    })
    .await
}

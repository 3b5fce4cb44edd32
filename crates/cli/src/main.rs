//! The `aplomb` binary: parse, wire, run. Anything longer than that lives in a module or a crate.
#![forbid(unsafe_code)]

mod args;
mod boxed;
mod connect;
mod crds;
mod demo;
#[cfg(target_os = "linux")]
mod egress_host;
mod gateway;
mod namespace;
mod run;
mod sim;
mod table;
mod tunnel;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};

/// Usage and tool errors, as opposed to findings (1) and time-outs (124).
const TOOL_ERROR: u8 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("aplomb: a TLS provider was installed before main");
        return ExitCode::from(TOOL_ERROR);
    }
    match dispatch(cli.command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("aplomb: {error:#}");
            ExitCode::from(TOOL_ERROR)
        }
    }
}

async fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Box(args) => boxed::run(args).await?,
        Command::Connect(args) => return connect::run(*args).await,
        Command::Crds(args) => crds::run(args).await?,
        Command::Demo(args) => return demo::run(args).await,
        Command::Gateway(args) => gateway::run(*args).await?,
        Command::Run(args) => run::run(args).await?,
        Command::Sim(args) => sim::run(args).await?,
        Command::Tunnel(args) => return tunnel::run(args).await,
        #[cfg(target_os = "linux")]
        Command::EgressHost(args) => egress_host::run(args).await?,
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "aplomb", &mut std::io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}

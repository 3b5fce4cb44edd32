//! The `aplomb` binary: parses flags and starts the command. Anything longer is a module or a crate.
#![forbid(unsafe_code)]

mod args;
mod cluster;
mod completion;
mod connect;
mod crds;
mod discovery;
#[cfg(target_os = "linux")]
mod egress_host;
mod error_text;
mod gateway;
mod get;
mod output;
mod prerequisites;
mod run;
mod status;
mod testbed;
mod trace;
mod tunnel;

use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use args::{Cli, CliCommand};
use output::OutputStream;

/// Usage and tool errors, as opposed to findings (1) and timeouts (124).
const EXIT_ERROR: u8 = 2;
/// There is a problem, an object does not exist, or a tunnel was ended elsewhere.
const EXIT_FINDING: u8 = 1;
/// The exit code of `timeout` and similar tools.
const EXIT_TIMED_OUT: u8 = 124;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = match parse_args() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("aplomb: a TLS provider was installed before main");
        return ExitCode::from(EXIT_ERROR);
    }
    let out = OutputStream::new(cli.color);
    match run_command(cli.command, &out).await {
        Ok(code) => code,
        // The reader closed the pipe: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aplomb: {}", error_text::error_line(&error));
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Parses the command line; as a kubectl plugin, usage shows `kubectl aplomb`.
fn parse_args() -> Result<Cli, ExitCode> {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    let command = match name.to_string_lossy().starts_with("kubectl-") {
        true => Cli::command().bin_name("kubectl aplomb"),
        false => Cli::command(),
    };
    let read = command
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    read.map_err(|error| {
        // Help is printed in full, also where it is shown because arguments are missing.
        let help = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if !help {
            eprintln!("aplomb: {}", error_text::usage_error_line(&error));
            return ExitCode::from(EXIT_ERROR);
        }
        let printed = error.print().is_ok();
        match printed && !error.use_stderr() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(EXIT_ERROR),
        }
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

async fn run_command(command: CliCommand, out: &OutputStream) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Box(args) => testbed::run_box(args).await?,
        CliCommand::Connect(args) => return connect::run(*args).await,
        CliCommand::Crds(args) => crds::run(args).await?,
        CliCommand::Demo(args) => return testbed::run_demo(args, out).await,
        CliCommand::Gateway(args) => gateway::run(*args).await?,
        CliCommand::Get(args) => return get::run(args, out).await,
        CliCommand::Run(args) => run::run(args).await?,
        CliCommand::Sim(args) => testbed::run_sim(args).await?,
        CliCommand::Status(args) => return status::run(args, out).await,
        CliCommand::Trace(args) => return trace::run(args, out).await,
        CliCommand::Tunnel(args) => return tunnel::run(args).await,
        #[cfg(target_os = "linux")]
        CliCommand::EgressHost(args) => egress_host::run(args).await?,
        CliCommand::Completion(args) => completion::run(&args, out)?,
        CliCommand::Complete { words } => completion::print_candidates(&words, out)?,
        CliCommand::Version(args) => crds::print_version(&args, out)?,
    }
    Ok(ExitCode::SUCCESS)
}

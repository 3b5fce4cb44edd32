//! The `controlplane` command: builds and starts a real control plane by hand.
#![forbid(unsafe_code)]

use anyhow::Result;
use aplomb_controlplane::{Binaries, ControlPlane, Options, Program};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// A real etcd and kube-apiserver for tests.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find the programs, building what is missing.
    Build,
    /// Print where each program is.
    Path,
    /// Start a control plane, print the path of its kubeconfig and run until interrupted.
    Up {
        /// Controllers to run, by the controller manager's names.
        #[arg(long, value_delimiter = ',')]
        controllers: Vec<String>,
        /// Let everybody do everything.
        #[arg(long)]
        no_rbac: bool,
        /// More flags for kube-apiserver.
        #[arg(last = true)]
        apiserver_args: Vec<String>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Args::parse().command {
        Command::Build => print(&Binaries::find_or_build()?),
        Command::Path => print(&Binaries::find()?),
        Command::Up {
            controllers,
            no_rbac,
            apiserver_args,
        } => {
            let options = Options {
                rbac: !no_rbac,
                controllers,
                apiserver_args,
                ..Options::default()
            };
            up(options).await?;
        }
    }
    Ok(())
}

async fn up(options: Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let plane = ControlPlane::start(options).await?;
    println!("{}", plane.kubeconfig_path().display());
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn print(binaries: &Binaries) {
    for program in Program::ALL {
        println!("{}", binaries.path(program).display());
    }
}

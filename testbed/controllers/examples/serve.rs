//! The smallest program that serves a box: an API server and its controllers on a port of loopback,
//! until it is interrupted.
//!
//! ```sh
//! cargo run -p aplomb-controllers --example serve -- box --kubeconfig box.kubeconfig
//! ```
//!
//! `aplomb box` is the same with the flags people ask for.

use std::error::Error;
use std::path::PathBuf;

use aplomb_apiserver::ApiServer;
use aplomb_apiserver::standalone::{StandaloneConfig, start_with};
use aplomb_apiserver::storage::DataDir;
use aplomb_controllers::Controllers;
use clap::Parser;

/// Serves a box until interrupted.
#[derive(Debug, Parser)]
enum Args {
    Box {
        /// Where to write the kubeconfig
        #[arg(long)]
        kubeconfig: PathBuf,
        /// Address and port
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: std::net::SocketAddr,
        /// Authorise by the stored Roles and bindings
        #[arg(long)]
        rbac: bool,
        /// Where to keep its state
        #[arg(long)]
        data_dir: Option<PathBuf>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args::Box {
        kubeconfig,
        listen,
        rbac,
        data_dir,
    } = Args::parse();
    let mut builder = ApiServer::builder().rbac(rbac).cluster(true);
    if let Some(path) = data_dir {
        builder = builder.data_dir(DataDir::open(path)?);
    }
    let server = builder.build();
    let _actors = Controllers::cluster().start(&server);
    let config = StandaloneConfig {
        listen,
        kubeconfig: Some(kubeconfig),
        ..StandaloneConfig::default()
    };
    let running = start_with(server, config).await?;
    println!("ready {}", running.url());
    tokio::signal::ctrl_c().await?;
    running.stop().await;
    Ok(())
}

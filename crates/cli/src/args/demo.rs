//! The flags of `aplomb demo`. Contains no logic.

use std::net::SocketAddr;
use std::path::PathBuf;

use aplomb_demo::StoryName;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Story to play: conflicts, tunnel, throttle, heartbeats or node-death; may be repeated
    /// [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) script: Vec<StoryName>,
    /// Reading speed: 2 halves the pauses. Without a terminal there are none
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER")]
    pub(crate) speed: f64,
    /// Print one JSON object per line: kinds ready, say, event, result
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep running after the stories until a signal, even without a terminal
    #[arg(long)]
    pub(crate) keep: bool,
    /// Address of the page; port 0 picks a free one
    #[arg(
        long,
        env = "APLOMB_DEMO_PAGE",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT"
    )]
    pub(crate) page: SocketAddr,
    /// File for the kubeconfig, removed at the end [default: in a temporary directory]
    #[arg(long, env = "APLOMB_DEMO_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

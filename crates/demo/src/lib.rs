//! `aplomb demo`: all of Aplomb in one process, and five stories that run on it.
//!
//! Only coderd and the Hetzner API are simulated; the cluster is the box, everything else is what
//! `aplomb run` starts. Nothing leaves this machine: all addresses are loopback, and all files are in
//! one directory that is removed at the end.
#![forbid(unsafe_code)]

mod baseline;
mod log;
mod narration;
mod object_watch;
mod request;
mod rival_writer;
mod run;
mod service;
mod stage;
mod stories;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use run::run;
pub use stories::StoryName;

/// The options of a demo.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The stories to play, in this order.
    pub scripts: Vec<StoryName>,
    /// Reading speed: pauses are divided by it.
    pub speed: f64,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// Stay up after the stories, even without a terminal.
    pub keep: bool,
    /// The address of the page; port 0 picks a free one.
    pub page: SocketAddr,
    /// The kubeconfig to write; by default one in the temporary directory.
    pub kubeconfig: Option<PathBuf>,
    /// Output goes to a terminal.
    pub terminal: bool,
    /// Text may be colored.
    pub colour: bool,
}

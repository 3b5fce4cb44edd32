//! `aplomb demo`: all of Aplomb in one process, and five stories played on it.
//!
//! Everything is the real thing but the two services that operators call (coderd and the Hetzner API
//! are simulated) and the cluster, which is the box. Nothing leaves this machine: all addresses are
//! loopback, all files are in one directory that is gone at the end.
#![forbid(unsafe_code)]

mod log;
mod request;
mod rival_writer;
mod run;
mod service;
mod stage;
mod stories;
mod narration;
mod baseline;
mod object_watch;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use run::run;
pub use stories::StoryName;

/// What a person chose.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The stories, in this order.
    pub scripts: Vec<StoryName>,
    /// How fast a person reads: pauses are divided by it.
    pub speed: f64,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// Stay up after the stories, also without a terminal.
    pub keep: bool,
    /// Where the page is served; port 0 picks a free one.
    pub page: SocketAddr,
    /// Where the kubeconfig is written; by default into the directory that is gone at the end.
    pub kubeconfig: Option<PathBuf>,
    /// Somebody reads along.
    pub terminal: bool,
    /// Text may be coloured.
    pub colour: bool,
}

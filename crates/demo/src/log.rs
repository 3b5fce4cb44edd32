//! Operators log to a file, because their lines would hide the story on the screen.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

/// iroh logs an error for each relay of an endpoint that closes normally, so relays are left out.
const LEVELS: &str = "info,iroh=warn,iroh::socket::transports::relay=off";

/// Sends all later log lines to a new file.
pub(crate) fn init_logging(file: &Path) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LEVELS));
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    let opened = opened.with_context(|| format!("write {}", file.display()))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(opened))
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot set up the log: {error}"))
}

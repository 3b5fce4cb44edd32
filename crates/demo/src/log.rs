//! What operators log goes to a file: on the screen it would drown the story.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

/// An endpoint that is closed in order says of its relays that it is an error.
const LEVELS: &str = "info,iroh=warn,iroh::socket::transports::relay=off";

/// Sends everything that is logged from here on to a new file.
pub(crate) fn init_logging(file: &Path) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LEVELS));
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file);
    let opened = opened.with_context(|| format!("write {}", file.display()))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(opened))
        .try_init()
        .map_err(|error| anyhow::anyhow!("the log cannot be set up: {error}"))
}

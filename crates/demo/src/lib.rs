//! `aplomb demo`: all of Aplomb in one process, and five stories that run on it.
//!
//! Only coderd and the Hetzner API are simulated; the cluster is the box, everything else is what
//! `aplomb run` starts. Nothing leaves this machine: all addresses are loopback, and all files are in
//! one directory that is removed at the end.
#![forbid(unsafe_code)]

mod baseline;
mod client;
mod narration;
mod rival_writer;
mod stage;
mod stories;

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::FutureExt;
use tracing_subscriber::EnvFilter;

use crate::narration::{Narrator, ProgressLine, ReadyMessage, StoryResult};
use crate::stage::{DemoDir, DemoStage, RunningDemo};
pub use crate::stories::StoryName;

/// iroh logs an error for each relay of an endpoint that closes normally, so relays are left out.
const LEVELS: &str = "info,iroh=warn,iroh::socket::transports::relay=off";
const EXIT_FAILED: u8 = 1;
/// The exit code of shells for a process that SIGINT ended.
const EXIT_INTERRUPTED: u8 = 130;
/// Time to read the beginning and the end of a story.
const READING_TIME: Duration = Duration::from_secs(3);

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
    pub terminal: bool,
    pub colour: bool,
}

/// Starts everything, plays the stories, waits if a person is watching, and cleans up in every case. Returns the exit code.
///
/// # Errors
/// Something could not be started, or stopped by itself.
pub async fn run(options: DemoOptions, shutdown: impl Future<Output = ()>) -> Result<ExitCode> {
    let shutdown = shutdown.shared();
    let home = DemoDir::new(options.kubeconfig.as_deref())?;
    init_logging(&home.log_path())?;
    let progress = ProgressLine::new(&options);
    let set = tokio::select! { biased;
        () = shutdown.clone() => None,
        set = stage::set_up(&options, &home, &progress) => Some(set?),
    };
    drop(progress);
    let Some((stage, mut company)) = set else {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    let ended = run_stories(&options, &home, &stage, &mut company, shutdown).await;
    drop(stage);
    company.shut_down().await;
    ended
}

async fn run_stories(
    options: &DemoOptions,
    home: &DemoDir,
    stage: &DemoStage,
    company: &mut RunningDemo,
    shutdown: impl Future<Output = ()> + Clone,
) -> Result<ExitCode> {
    let mut teller = Narrator::new(options);
    teller.print_ready(&ReadyMessage {
        page: format!("{}/", stage.admin.url()),
        url: format!("http://{}/", stage.tunnels.gateway),
        kubeconfig: home.kubeconfig().display().to_string(),
        log: home.log_path().display().to_string(),
    });
    let played = tokio::select! { biased;
        () = shutdown.clone() => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
        error = company.wait_broken() => return Err(error),
        played = play_all(&options.scripts, stage, &mut teller) => played,
    };
    if options.terminal || options.keep {
        teller.print_stay(home.kubeconfig());
        tokio::select! { biased;
            () = shutdown.clone() => {}
            error = company.wait_broken() => return Err(error),
        }
    }
    Ok(match played {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_FAILED),
    })
}

/// Plays all stories, and returns whether all of them passed.
async fn play_all(scripts: &[StoryName], stage: &DemoStage, teller: &mut Narrator) -> bool {
    let mut verdicts = Vec::new();
    for (at, script) in scripts.iter().enumerate() {
        teller.begin_story(at + 1, scripts.len(), &script.title());
        teller.pause_reading(READING_TIME).await;
        let verdict = script.run_story(stage, teller).await;
        let verdict = verdict.unwrap_or_else(|error| failed_result(&error));
        teller.print_result(&verdict);
        teller.pause_reading(READING_TIME).await;
        verdicts.push((script.title().name, verdict.pass));
    }
    teller.print_results(&verdicts);
    verdicts.iter().all(|(_, pass)| *pass)
}

/// A story that stops with an error has failed.
fn failed_result(error: &anyhow::Error) -> StoryResult {
    StoryResult {
        pass: false,
        figure: format!("{error:#}"),
        numbers: serde_json::Value::Null,
    }
}

/// Sends all later log lines to a new file, because lines of operators would hide the story on the screen.
fn init_logging(file: &Path) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LEVELS));
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    let opened = opened.with_context(|| format!("write {}", file.display()))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(opened))
        .try_init()
        .map_err(|error| anyhow!("cannot set up the log: {error}"))
}

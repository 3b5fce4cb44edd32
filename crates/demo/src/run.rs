//! The whole demo: starts everything, plays, waits if a person is watching, and cleans up in every case.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::narration::{Narrator, ProgressLine, ReadyMessage, StoryResult};
use crate::stage::{self, DemoDir, DemoStage, RunningDemo};
use crate::stories::StoryName;
use crate::{DemoOptions, log};

/// A story failed.
const EXIT_FAILED: u8 = 1;
/// The exit code of shells for a process that SIGINT ended.
const EXIT_INTERRUPTED: u8 = 130;
/// Time to read the beginning and the end of a story.
const READING_TIME: Duration = Duration::from_secs(3);

/// Plays the stories and returns the exit code.
///
/// # Errors
/// Something could not be started, or stopped by itself.
pub async fn run(options: DemoOptions) -> Result<ExitCode> {
    // Before anything is created, so that cleanup runs whenever a signal arrives.
    let mut signals = Signals::new()?;
    let home = DemoDir::new(options.kubeconfig.as_deref())?;
    log::init_logging(&home.log_path())?;
    let progress = ProgressLine::new(&options);
    let set = tokio::select! { biased;
        () = signals.recv() => None,
        set = stage::set_up(&options, &home, &progress) => Some(set?),
    };
    drop(progress);
    let Some((stage, mut company)) = set else {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    let ended = run_stories(&options, &home, &stage, &mut company, &mut signals).await;
    drop(stage);
    company.shut_down().await;
    ended
}

async fn run_stories(
    options: &DemoOptions,
    home: &DemoDir,
    stage: &DemoStage,
    company: &mut RunningDemo,
    signals: &mut Signals,
) -> Result<ExitCode> {
    let mut teller = Narrator::new(options);
    teller.print_ready(&ReadyMessage {
        page: format!("{}/", stage.office.url()),
        url: format!("http://{}/", stage.tunnels.gateway),
        kubeconfig: home.kubeconfig().display().to_string(),
        log: home.log_path().display().to_string(),
    });
    let played = tokio::select! { biased;
        () = signals.recv() => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
        error = company.wait_broken() => return Err(error),
        played = play_all(&options.scripts, stage, &mut teller) => played,
    };
    if options.terminal || options.keep {
        teller.print_stay(home.kubeconfig());
        tokio::select! { biased;
            () = signals.recv() => {}
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

struct Signals(Signal, Signal);

impl Signals {
    fn new() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        Ok(Self(interrupt, terminate))
    }

    async fn recv(&mut self) {
        tokio::select! { biased;
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

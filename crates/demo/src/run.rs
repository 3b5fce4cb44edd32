//! The whole demo: starts everything, plays, waits if a person is watching, and cleans up in every case.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::stage::{self, DemoDir, DemoStage, RunningDemo};
use crate::stories::StoryName;
use crate::tell::{Narrator, ProgressLine, ReadyMessage, StoryResult};
use crate::{DemoOptions, log};

/// A story failed.
const FAILED: u8 = 1;
/// The exit code of shells for a process that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// Time to read the beginning and the end of a story.
const READING: Duration = Duration::from_secs(3);

/// Plays the stories and returns the exit code.
///
/// # Errors
/// Something could not be started, or stopped by itself.
pub async fn run(options: DemoOptions) -> Result<ExitCode> {
    // Before anything is created, so that cleanup runs whenever a signal arrives.
    let mut signals = Signals::new()?;
    let home = DemoDir::make(options.kubeconfig.as_deref())?;
    log::to(&home.log())?;
    let progress = ProgressLine::new(&options);
    let set = tokio::select! { biased;
        () = signals.next() => None,
        set = stage::set(&options, &home, &progress) => Some(set?),
    };
    drop(progress);
    let Some((stage, mut company)) = set else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let ended = perform(&options, &home, &stage, &mut company, &mut signals).await;
    drop(stage);
    company.end().await;
    ended
}

async fn perform(
    options: &DemoOptions,
    home: &DemoDir,
    stage: &DemoStage,
    company: &mut RunningDemo,
    signals: &mut Signals,
) -> Result<ExitCode> {
    let mut teller = Narrator::new(options);
    teller.ready(&ReadyMessage {
        page: format!("{}/", stage.office.url()),
        url: format!("http://{}/", stage.tunnels.gateway),
        kubeconfig: home.kubeconfig().display().to_string(),
        log: home.log().display().to_string(),
    });
    let played = tokio::select! { biased;
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
        error = company.broken() => return Err(error),
        played = play(&options.scripts, stage, &mut teller) => played,
    };
    if options.terminal || options.keep {
        teller.stay(home.kubeconfig());
        tokio::select! { biased;
            () = signals.next() => {}
            error = company.broken() => return Err(error),
        }
    }
    Ok(match played {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

/// Plays all stories, and returns whether all of them passed.
async fn play(scripts: &[StoryName], stage: &DemoStage, teller: &mut Narrator) -> bool {
    let mut verdicts = Vec::new();
    for (at, script) in scripts.iter().enumerate() {
        teller.begin(at + 1, scripts.len(), &script.title());
        teller.pause(READING).await;
        let verdict = script.play(stage, teller).await;
        let verdict = verdict.unwrap_or_else(|error| failed(&error));
        teller.result(&verdict);
        teller.pause(READING).await;
        verdicts.push((script.title().name, verdict.pass));
    }
    teller.results(&verdicts);
    verdicts.iter().all(|(_, pass)| *pass)
}

/// A story that stops with an error has failed.
fn failed(error: &anyhow::Error) -> StoryResult {
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

    async fn next(&mut self) {
        tokio::select! { biased;
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

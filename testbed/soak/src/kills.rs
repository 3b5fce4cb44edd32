//! Kills at random moments: writers and watchers at work, SIGKILL, a restart on the same directory,
//! and a comparison of what is there with what was promised.
//!
//! Promised is: an acknowledged write is there, at its version, or a later one that was sent; an
//! acknowledged deletion stays; no version is ever used for two things; versions only grow; a watch
//! that is resumed sees every event once and in order.

mod follow;
mod kinds;
mod ledger;
mod load;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

use crate::process::Recipe;
use crate::wire::Connection;
use follow::Follower;
use kinds::{FOLLOWED, KINDS};
use ledger::Ledger;

/// Kills on one directory before the next begins from nothing: a long life and many births.
const KILLS_PER_DIRECTORY: usize = 50;
/// One start in so many is killed before it is ready.
const EARLY: usize = 6;

/// What a run consists of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A program that takes `box --kubeconfig FILE --data-dir DIR`.
    pub program: PathBuf,
    /// How often it is killed.
    pub kills: usize,
    /// Seed of the moments and of the writes.
    pub seed: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Kills, of which `early` before the box was ready.
    pub kills: usize,
    /// Kills during start and recovery.
    pub early: usize,
    /// Writes that were acknowledged.
    pub acknowledged: usize,
    /// Writes that were under way when the box was killed.
    pub cut: usize,
    /// Events that watchers saw.
    pub events: usize,
    /// Watches that had to list again.
    pub expired: usize,
}

/// Carries out a plan.
///
/// # Errors
/// The first promise that was not kept.
pub async fn run(plan: &Plan, mut tell: impl FnMut(&Report)) -> Result<Report> {
    let mut rng = fastrand::Rng::with_seed(plan.seed);
    let mut report = Report::default();
    while report.kills < plan.kills {
        let kills = KILLS_PER_DIRECTORY.min(plan.kills - report.kills);
        let place = tempfile::tempdir()?;
        let life = Life {
            recipe: recipe(plan, place.path()),
            rng: rng.fork(),
            ledger: Arc::new(Mutex::new(Ledger::default())),
            followers: Vec::new(),
            startup: Duration::from_millis(300),
        };
        let life = life.run(kills, &mut report).await;
        life.with_context(|| format!("seed {}, kill {}", plan.seed, report.kills))?;
        tell(&report);
    }
    Ok(report)
}

fn recipe(plan: &Plan, place: &Path) -> Recipe {
    Recipe {
        program: plan.program.clone(),
        directory: place.join("data"),
        keeps: true,
        largest_file: None,
    }
}

/// One directory from its birth on.
struct Life {
    recipe: Recipe,
    rng: fastrand::Rng,
    ledger: Arc<Mutex<Ledger>>,
    followers: Vec<Follower>,
    /// How long the last start took.
    startup: Duration,
}

impl Life {
    async fn run(mut self, kills: usize, report: &mut Report) -> Result<()> {
        for _ in 0..kills {
            if self.rng.usize(..EARLY) == 0 {
                self.kill_early().await?;
                report.early += 1;
            } else {
                self.live_and_die().await?;
            }
            report.kills += 1;
        }
        // What the last kill left is looked at as well.
        let running = self.recipe.start().await?;
        self.verify(&running.client).await?;
        running.kill().await?;
        let ledger = self.ledger.lock().expect("nobody panics with it");
        report.acknowledged += ledger.acknowledged;
        report.cut += ledger.cut;
        report.events += self.followers.iter().map(Follower::events).sum::<usize>();
        report.expired += self.followers.iter().map(Follower::expired).sum::<usize>();
        Ok(())
    }

    /// Starts and kills before it is ready: while it recovers, or listens, or has just begun.
    async fn kill_early(&mut self) -> Result<()> {
        let mut child = self.recipe.spawn()?;
        sleep(self.startup.mul_f64(self.rng.f64())).await;
        child.kill().await?;
        Ok(())
    }

    async fn live_and_die(&mut self) -> Result<()> {
        let began = Instant::now();
        let running = self.recipe.start().await?;
        self.startup = began.elapsed();
        let client = running.client.clone();
        if self.followers.is_empty() {
            kinds::install(&client).await?;
            self.followers = Follower::all(&client, &self.ledger).await?;
        } else {
            self.verify(&client).await?;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for (number, kind) in KINDS.iter().enumerate() {
            let load = load::Writer::new(number, *kind, self.rng.fork(), self.ledger.clone());
            tasks.spawn(load.run(client.clone()));
        }
        for follower in &self.followers {
            tasks.spawn(follower.clone().follow(client.clone()));
        }
        let working = Duration::from_micros(self.rng.u64(2_000..120_000));
        sleep(working).await;
        running.kill().await?;
        // Every request fails or has been answered now; what was promised is written down.
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Compares what is there with what was promised, then that watches see all of it.
    async fn verify(&mut self, client: &Connection) -> Result<()> {
        for kind in KINDS {
            let listed = kind.list(client).await?;
            let mut ledger = self.ledger.lock().expect("nobody panics with it");
            ledger.compare(kind, &listed)?;
        }
        for (follower, kind) in self.followers.iter().zip(FOLLOWED) {
            let mark = load::mark(client, kind, &self.ledger).await?;
            follower.catch_up(client, mark).await?;
            let listed = kind.list(client).await?;
            follower.compare(&listed)?;
        }
        Ok(())
    }
}

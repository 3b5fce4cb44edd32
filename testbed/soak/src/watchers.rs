//! Many watchers of one kind while one writer writes: every one must see every event, in order, and
//! how long that takes is measured.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Method;
use memchr::memmem::Finder;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::wire::{Connection, Lines, Target};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NUMBER: &str = "example.com/number";
/// Watches on one connection; the server allows 250.
const PER_CONNECTION: usize = 100;
/// Objects that are written in turn.
const OBJECTS: usize = 50;
/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many watch.
    pub watchers: usize,
    /// Writes in a second.
    pub rate: usize,
    /// For so long.
    pub seconds: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Writes.
    pub writes: usize,
    /// Events that were seen, all of them in order.
    pub events: usize,
    /// How long the writes took.
    pub took: Duration,
    /// From the sending of a write to its event at a watcher: half of them, and all but a hundredth.
    pub p50: Duration,
    /// The latter.
    pub p99: Duration,
}

/// Runs a plan on the server of a kubeconfig.
///
/// # Errors
/// A watcher missed an event, or saw one out of order.
pub async fn run(kubeconfig: &Path, plan: &Plan) -> Result<Figures> {
    let target = Target::read(kubeconfig)?;
    let writer = target.connect().await?;
    for object in 0..OBJECTS {
        let code = write(&writer, object, 0).await?;
        ensure!(code < 300, "the first write was answered {code}");
    }
    let list = writer.get(CONFIG_MAPS).await?;
    let version = list["metadata"]["resourceVersion"].as_str();
    let version = version.context("a list has a version")?;
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}");
    let writes = plan.rate * plan.seconds;
    let sent: Arc<Vec<OnceLock<Instant>>> = Arc::new((0..=writes).map(|_| OnceLock::new()).collect());
    let mut watchers = JoinSet::new();
    let mut connection = target.connect().await?;
    for number in 0..plan.watchers {
        if number % PER_CONNECTION == PER_CONNECTION - 1 {
            connection = target.connect().await?;
        }
        let lines = connection.watch(&path).await?;
        watchers.spawn(watch(connection.clone(), lines, sent.clone()));
    }
    let (pace, times) = (plan.rate, sent.clone());
    let took = tokio::task::spawn_blocking(move || write_alone(&target, pace, &times)).await??;
    let delays = timeout(PATIENCE, gather(watchers)).await;
    let mut delays = delays.context("watchers still wait for events")??;
    ensure!(delays.len() == writes * plan.watchers, "events are missing");
    delays.sort_unstable();
    let at = |share: usize| delays[(delays.len() - 1) * share / 100];
    Ok(Figures {
        writes,
        events: delays.len(),
        took,
        p50: at(50),
        p99: at(99),
    })
}

/// Writes every number once at a steady pace and says how long it took. In a thread of its own: the writer
/// must not wait until a thousand watchers have read.
fn write_alone(target: &Target, rate: usize, sent: &[OnceLock<Instant>]) -> Result<Duration> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(async {
        let writer = target.connect().await?;
        let began = Instant::now();
        let mut pace = interval(Duration::from_secs(1) / u32::try_from(rate)?);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for (number, moment) in sent.iter().enumerate().skip(1) {
            pace.tick().await;
            moment.get_or_init(Instant::now);
            let code = write(&writer, number % OBJECTS, number).await?;
            ensure!(code == 200, "write {number} was answered {code}");
        }
        Ok(began.elapsed())
    })
}

async fn gather(mut watchers: JoinSet<Result<Vec<Duration>>>) -> Result<Vec<Duration>> {
    let mut delays = Vec::new();
    while let Some(seen) = watchers.join_next().await {
        delays.extend(seen??);
    }
    Ok(delays)
}

/// Follows until the last write: each number must be one more than the one before.
async fn watch(_connection: Connection, mut lines: Lines, sent: Arc<Vec<OnceLock<Instant>>>) -> Result<Vec<Duration>> {
    let mark = format!("\"{NUMBER}\":\"");
    let finder = Finder::new(mark.as_bytes());
    let mut delays = Vec::with_capacity(sent.len());
    for expected in 1..sent.len() {
        let Some(line) = lines.next().await else {
            bail!("a watch ended before event {expected}");
        };
        let number = number(&line, &finder);
        ensure!(number == Some(expected), "event {number:?} came in place of {expected}");
        let began = sent[expected].get().context("an event before its write")?;
        delays.push(began.elapsed());
    }
    Ok(delays)
}

fn number(line: &Bytes, finder: &Finder<'_>) -> Option<usize> {
    let start = finder.find(line)? + finder.needle().len();
    let digits = line[start..].split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

async fn write(client: &Connection, object: usize, number: usize) -> Result<u16> {
    let name = format!("watched-{object}");
    let metadata = json!({ "name": name, "annotations": { NUMBER: number.to_string() } });
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": { "text": "x".repeat(200) },
    });
    let (method, path, media) = if number == 0 {
        let path = format!("{CONFIG_MAPS}/{name}?fieldManager=watchers&force=true");
        (Method::PATCH, path, "application/apply-patch+yaml")
    } else {
        let path = format!("{CONFIG_MAPS}/{name}");
        (Method::PATCH, path, "application/merge-patch+json")
    };
    let body = body.to_string().into_bytes();
    Ok(client.ask(method, &path, media, body).await?.code)
}

//! Promise: after a restart, converged objects are reconciled a few at a time, and one
//! that its user edits in the meantime is handled within a second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::queue::{self, LaneConfig};
use aplomb::{Action, Context, Controller, Engine};
use futures::{StreamExt, stream};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::{Answers, Lab, REAL_TIME_SLACK, on_box, on_real_alone, page, seconds, wait_until};
use crate::page::{Page, PageSpec};

const OBJECTS: usize = 10_000;
/// The cost of one reconcile, high enough that all objects would keep all workers busy for a minute.
const WORK: Duration = Duration::from_millis(50);

/// When each run began.
type Runs = Arc<Mutex<Vec<Instant>>>;

/// The events between the start and the handling of the edit.
struct Start {
    /// From the edit to the status that shows it.
    handled: Duration,
    /// When runs began, since the first of them.
    runs: Vec<Duration>,
    writes: usize,
}

fn controller(work: Duration, runs: &Runs) -> Controller<Page> {
    let runs = runs.clone();
    Controller::new("page", move |_: Arc<Page>, _: Context<Page>| {
        runs.lock().unwrap().push(Instant::now());
        async move {
            sleep(work).await;
            Ok(Action::Done)
        }
    })
}

fn name(number: usize) -> String {
    format!("page-{number:05}")
}

/// All objects as the first run of the operator leaves them.
async fn converged(lab: &Lab) -> Api<Page> {
    let pages = page(lab).await;
    let create = |number| {
        let text = String::new();
        let title = "a title".to_owned();
        let new = Page::new(&name(number), PageSpec { title, text });
        let pages = pages.clone();
        async move { pages.create(&PostParams::default(), &new).await.unwrap() }
    };
    // One exists already.
    let created = stream::iter(1..OBJECTS).map(create).buffer_unordered(32);
    assert_eq!(created.count().await, OBJECTS - 1);
    let answers = Answers::default();
    let first = Engine::new("pages.example.com", answers.for_client(&lab.client("first").0))
        .configure(|settings| (settings.api_limit_config.rate, settings.api_limit_config.burst) = (1e6, 1_000_000))
        .controller(controller(Duration::ZERO, &Runs::default()).workers(32));
    let all_written = async {
        while answers.writes().len() < OBJECTS {
            sleep(seconds(1)).await;
        }
    };
    first.run(all_written).await.unwrap();
    pages
}

/// A restart, and an edit of the object that would be reconciled last.
async fn restart(lab: &Lab, pages: &Api<Page>, text: &str, queue: queue::QueueConfig) -> Start {
    let (runs, answers) = (Runs::default(), Answers::default());
    let second = Engine::new("pages.example.com", answers.for_client(&lab.client("second").0))
        .controller(controller(WORK, &runs).configure(|options| options.queue = queue));
    let edited = async {
        wait_until(seconds(60), "the first run", || async {
            !runs.lock().unwrap().is_empty()
        })
        .await;
        sleep(seconds(2)).await;
        let last = name(OBJECTS - 1);
        let edit = Patch::Merge(json!({ "spec": { "text": text } }));
        let edit = pages.patch(&last, &PatchParams::default(), &edit).await;
        let generation = edit.unwrap().metadata.generation;
        wait_until(seconds(600), "the edit is handled", || async {
            let page = pages.get(&last).await.unwrap();
            page.status.and_then(|status| status.observed_generation) == generation
        })
        .await
    };
    let handled = tokio::select! { biased;
        handled = edited => handled,
        ended = second.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    };
    let runs = runs.lock().unwrap();
    Start {
        handled,
        runs: runs.iter().map(|run| *run - runs[0]).collect(),
        writes: answers.writes().len(),
    }
}

/// Edits have no priority, as in a queue without lanes.
fn without_lanes() -> queue::QueueConfig {
    let mut config = crate::lanes::strict();
    config.resync = LaneConfig {
        weight: 1,
        ..config.resync
    };
    config
}

/// Real time gets `slack` times the limits.
fn assert_bounds(start: &Start, slack: u32) {
    println!(
        "an edit among {OBJECTS} objects after a restart: handled in {:?}, {} runs, {} writes",
        start.handled,
        start.runs.len(),
        start.writes
    );
    assert!(start.handled < slack * seconds(1), "{:?}", start.handled);
    assert_eq!(start.writes, 1, "only the edited object needs a write");
    let pace = queue::QueueConfig::default().resync.pace.unwrap();
    for (before, run) in start.runs.iter().enumerate() {
        let allowed = u64::from(pace.burst) + (run.as_secs() + 1) * u64::from(pace.per_second);
        assert!(before as u64 <= allowed, "{before} runs in {run:?}");
    }
}

#[test]
fn an_edit_during_a_cold_start_is_handled_within_a_second() {
    let (with, without) = on_box(3, |lab| async move {
        let pages = converged(&lab).await;
        let with = restart(&lab, &pages, "mended", queue::QueueConfig::default()).await;
        let without = restart(&lab, &pages, "fixed again", without_lanes()).await;
        (with, without)
    });
    assert_bounds(&with, 1);
    println!("without lanes: handled in {:?}", without.handled);
    assert!(without.handled > seconds(30), "{:?}", without.handled);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_an_edit_during_a_cold_start_is_handled_at_once() {
    let start = on_real_alone(|lab| async move {
        let pages = converged(&lab).await;
        restart(&lab, &pages, "mended", queue::QueueConfig::default()).await
    });
    assert_bounds(&start, REAL_TIME_SLACK);
}

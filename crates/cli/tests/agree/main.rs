//! The five stories of `aplomb demo`, while `/status.json`, the page and `aplomb get` are asked again and again. At every
//! instant they show the same: an object at a version has the same texts wherever it is shown, and what the API server
//! has reaches the page, in a second where the machine is not busy.
//!
//! `cargo test -p aplomb-cli --test agree [-- ARGUMENTS OF THE DEMO]`; it takes as long as the stories do. This is also
//! the run that shows that every story passes.
#![forbid(unsafe_code)]

mod comparison;
mod demo;
mod html;
mod client;
mod sample;
mod text;

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, MissedTickBehavior, interval};

use comparison::Comparison;
use demo::Demo;
use client::DemoClient;

/// How often page and status are read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How soon the page shows what the API server has, 99 times of 100.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// And always, on any machine: other things run on the same cores.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut demo = Demo::start(&arguments).await?;
    let look = DemoClient::new(&demo)?;
    let book = RefCell::new(Comparison::default());
    let sampled = tokio::select! { biased;
        told = demo.wait_finished() => told,
        ended = sample_page(&look, &book) => ended,
        ended = sample_objects(&look, &book) => ended,
    };
    let agreed = match &sampled {
        Ok(()) => check_result(&look, &book).await,
        Err(_) => Ok(()),
    };
    let ended = demo.end().await;
    let mut failed = demo.failed;
    let outcomes = [
        ("the stories were played and sampled", sampled),
        ("page, status.json and get agree", agreed),
        ("the demo ends cleanly", ended),
    ];
    let mut passed = demo.passed;
    for (what, outcome) in outcomes {
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("ok      {what}");
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {what}\n        {error:#}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Reads page and status at a pace, and notes what each shows. Ends with an error only.
async fn sample_page(look: &DemoClient, book: &RefCell<Comparison>) -> Result<()> {
    let mut pace = interval(POLL_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        let page = look.page().await?;
        let status = look.status().await?;
        let mut book = book.borrow_mut();
        book.record("the page", &page);
        book.record("status.json", &status);
        let now = Instant::now();
        book.record_arrival(&status, now);
        let late = book.overdue_objects(now, TIMEOUT);
        ensure!(late.is_empty(), "not shown within {TIMEOUT:?}: {late:?}");
    }
}

/// Asks with `aplomb get`, around a look at the status. Ends with an error only.
async fn sample_objects(look: &DemoClient, book: &RefCell<Comparison>) -> Result<()> {
    let mut pace = interval(POLL_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        compare_round(look, book).await?;
    }
}

/// One bracket: objects, status, table, objects. What is the same before and after was so in between.
async fn compare_round(look: &DemoClient, book: &RefCell<Comparison>) -> Result<()> {
    let before = look.objects().await?;
    let since = Instant::now();
    let status = look.status().await?;
    let table = look.table().await?;
    let mut after = look.objects().await?;
    let mut book = book.borrow_mut();
    book.record("get -o json", &before);
    book.record("get -o json", &after);
    book.record("status.json", &status);
    after.retain(|object, shown| before.get(object) == Some(shown));
    for (object, cells) in &table {
        if let Some(same) = after.get(object) {
            book.cells("get -o wide", object, same.version, cells);
        }
    }
    book.samples += 1;
    book.check_settled(&after, &status, since);
    Ok(())
}

/// Everything has come to rest: all show the same, and the comparison would have seen it if not.
async fn check_result(look: &DemoClient, book: &RefCell<Comparison>) -> Result<()> {
    compare_round(look, book).await?;
    let status = look.status().await?;
    let book = book.borrow();
    let (p99, most) = (
        book.p99(),
        book.delays.iter().max().copied().unwrap_or_default(),
    );
    println!(
        "        {} samples, {} comparisons, {} looks at what the server has; behind it p99 {p99:.0?}, at most {most:.0?}; promised is {MAX_DELAY:?}",
        book.samples,
        book.compared,
        book.delays.len()
    );
    ensure!(
        book.faults.is_empty(),
        "{} differ, the first: {}",
        book.faults.len(),
        book.faults[0]
    );
    ensure!(book.compared > 1000, "only {} comparisons", book.compared);
    ensure!(
        book.detects_wrong_cell(&status),
        "a wrong cell would not be seen"
    );
    ensure!(
        book.detects_late_page(&status, TIMEOUT),
        "a late page would not be seen"
    );
    // Real time on a machine that does other things as well: ten times what is promised.
    ensure!(p99 < 10 * MAX_DELAY, "the page is {p99:?} behind");
    Ok(())
}

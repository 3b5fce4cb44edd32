//! The five stories of `aplomb demo`, while `/status.json`, the page and `aplomb get` are read all the time. They must
//! always agree: an object at a version has the same texts in each, and changes in the API server reach the page within
//! a second if the machine is not busy.
//!
//! `cargo test -p aplomb-cli --test agree [-- ARGUMENTS OF THE DEMO]`; it takes as long as the stories. This run also
//! shows that every story passes.
#![forbid(unsafe_code)]

mod client;
mod comparison;
mod demo;
mod html;
mod sample;
mod text;

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, MissedTickBehavior, interval};

use client::DemoClient;
use comparison::Comparison;
use demo::Demo;

/// Polling interval of page and status.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// 99 of 100 changes reach the page within this.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// All changes reach it within this, also on a busy machine.
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
        ("the demo exits cleanly", ended),
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

/// Polls page and status, and records what each shows. Ends with an error only.
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

/// Runs `aplomb get` before and after reading the status. Ends with an error only.
async fn sample_objects(look: &DemoClient, book: &RefCell<Comparison>) -> Result<()> {
    let mut pace = interval(POLL_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        compare_round(look, book).await?;
    }
}

/// One round: objects, status, table, objects. A version that is the same before and after was so in between.
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

/// At rest, all sources agree; and the comparison would have found a difference.
async fn check_result(look: &DemoClient, book: &RefCell<Comparison>) -> Result<()> {
    compare_round(look, book).await?;
    let status = look.status().await?;
    let book = book.borrow();
    let (p99, most) = (book.p99(), book.delays.iter().max().copied().unwrap_or_default());
    println!(
        "        {} samples, {} comparisons, {} reads of the server; delay p99 {p99:.0?}, at most {most:.0?}; limit {MAX_DELAY:?}",
        book.samples,
        book.compared,
        book.delays.len()
    );
    ensure!(
        book.faults.is_empty(),
        "{} differences, the first: {}",
        book.faults.len(),
        book.faults[0]
    );
    ensure!(book.compared > 1000, "only {} comparisons", book.compared);
    ensure!(book.detects_wrong_cell(&status), "a wrong cell would not be found");
    ensure!(
        book.detects_late_page(&status, TIMEOUT),
        "a late page would not be found"
    );
    // Real time on a busy machine: ten times the limit.
    ensure!(p99 < 10 * MAX_DELAY, "the page is {p99:?} behind");
    Ok(())
}

//! Runs cases on the servers and compares what they answered.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::time::timeout;

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::difference::first_difference;
use crate::report::{Entry, Outcome, Report};
use crate::server::{Server, Side, install_fixtures};

const LIMIT: Duration = Duration::from_secs(150);
const LONG_LIMIT: Duration = Duration::from_secs(300);
/// Cases in flight per server: most of them wait, two cores do the rest.
const AT_ONCE: usize = 24;

/// What a case left behind on one server.
type Transcript = Result<Vec<Value>>;

/// Runs every case on every side that is given, both sides at the same time.
///
/// # Errors
/// When a server refuses the custom resources the cases share.
pub async fn run(cases: &[Case], the_box: Option<&Side>, real: Option<&Side>) -> Result<Report> {
    let (on_box, on_real) = futures::try_join!(run_side(cases, the_box), run_side(cases, real))?;
    let mut report = Report::default();
    for (at, case) in cases.iter().enumerate() {
        let real = on_real.as_ref().map(|all| &all[at]);
        if let Some(outcome) = real {
            report
                .cases
                .push(entry(case, "real", outcome.as_ref().err().map(describe)));
        }
        if let Some(outcome) = on_box.as_ref().map(|all| &all[at]) {
            let failure = match (outcome, real) {
                (Err(error), _) => Some(describe(error)),
                (Ok(_), _) if case.uncompared => None,
                (Ok(mine), Some(Ok(theirs))) => first_difference(theirs, mine),
                (Ok(_), _) => None,
            };
            report.cases.push(entry(case, "box", failure));
        }
    }
    Ok(report)
}

async fn run_side(cases: &[Case], side: Option<&Side>) -> Result<Option<Vec<Transcript>>> {
    let Some(side) = side else { return Ok(None) };
    for server in [&side.plain, &side.collected] {
        install_fixtures(server.as_ref())
            .await
            .context("installing the shared resources")?;
    }
    let (alone, together): (Vec<_>, Vec<_>) = cases.iter().enumerate().partition(|(_, case)| case.alone);
    let mut done = run_cases(together, side, AT_ONCE).await;
    done.extend(run_cases(alone, side, 1).await);
    done.sort_by_key(|(at, _)| *at);
    Ok(Some(done.into_iter().map(|(_, outcome)| outcome).collect()))
}

/// Runs cases with their places in the suite, so many at once, whichever is ready first: a case
/// that waits must not hold up those behind it.
async fn run_cases(cases: Vec<(usize, &Case)>, side: &Side, at_once: usize) -> Vec<(usize, Transcript)> {
    let trials = cases.into_iter().map(|(at, case)| {
        let server = if case.controllers { &side.collected } else { &side.plain };
        try_case(case, server.clone()).map(move |outcome| (at, outcome))
    });
    futures::stream::iter(trials).buffer_unordered(at_once).collect().await
}

async fn try_case(case: &Case, server: Arc<dyn Server>) -> Transcript {
    let trial = CaseRun::start(server, &case.namespace()).await?;
    let limit = if case.long { LONG_LIMIT } else { LIMIT };
    let run = AssertUnwindSafe(timeout(limit, (case.run)(&trial))).catch_unwind();
    match run.await {
        Ok(Ok(Ok(()))) => Ok(trial.transcript().await),
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) => Err(anyhow!("did not end within {limit:?}")),
        Err(_) => Err(anyhow!("panicked")),
    }
}

fn entry(case: &Case, server: &str, failure: Option<String>) -> Entry {
    let result = if failure.is_some() {
        Outcome::Failed
    } else {
        Outcome::Passed
    };
    let detail = failure.unwrap_or_default();
    Entry {
        case: case.name.to_owned(),
        server: server.to_owned(),
        result,
        detail,
    }
}

fn describe(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

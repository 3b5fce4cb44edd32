//! Ten tunnels, one after the other: the time of the first successful request, and the time the page turned green.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aplomb::Clock;
use http::header::HOST;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::chromium::{Chromium, Tab};
use crate::stage::{Stage, TIMEOUT};

/// The number of tunnels.
const RUNS: usize = 10;
/// How long the toggle may lag behind the first successful request, in milliseconds: ten times the promise, because the
/// cores are shared with other tests.
const MAX_DELAY_MILLIS: i64 = 10 * 1000;
/// Pause between two requests, so that they leave the cores to the rest.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Records every change of every toggle with its time, from the first moment of the page.
pub(crate) const OBSERVER: &str = r"
(() => {
  const seen = window.seen = {}, waiting = [];
  const look = () => {
    for (const toggle of document.querySelectorAll('.toggle')) {
      const { namespace, name } = toggle.closest('[data-name]').dataset;
      const { light, stage } = toggle.dataset, list = seen[`${namespace}/${name}`] ??= [];
      const last = list.at(-1);
      if (last?.light !== light || last?.stage !== stage) list.push({ at: Date.now(), light, stage });
    }
    for (const { key, done } of waiting) if (seen[key]?.at(-1)?.light === 'green') done(seen[key]);
  };
  window.green = (key) => new Promise((done) => { waiting.push({ key, done }); look(); });
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
})();
";

/// The result of one run, in milliseconds.
struct Figures {
    /// From creation to the end of the first successful request.
    request: i64,
    /// From there to green; a request on a slow machine may end after it.
    page_delay: i64,
    stages: Vec<String>,
}

pub(crate) async fn run_all(stage: &Stage, browser: &mut Chromium, tab: &Tab) -> Result<()> {
    for run in 1..=RUNS {
        let figures = run_once(stage, browser, tab, &format!("run-{run}"))
            .await
            .with_context(|| format!("run {run}"))?;
        let Figures {
            request,
            page_delay: later,
            stages,
        } = figures;
        println!(
            "run {run:>2}: a request after {request} ms, green {later} ms later ({})",
            stages.join(", ")
        );
    }
    Ok(())
}

async fn run_once(stage: &Stage, browser: &mut Chromium, tab: &Tab, name: &str) -> Result<Figures> {
    let hostname = format!("{name}.example.com");
    let waits = format!("window.green('default/{name}')");
    let mut created = 0;
    let create = async {
        created = now();
        stage.create_tunnel(name).await
    };
    let requests = timeout(TIMEOUT, first_success(&stage.listen, &hostname));
    let (through, made, seen) = tokio::join!(requests, create, browser.evaluate(tab, &waits));
    made?;
    let seen = seen?;
    let through = through.context("no request succeeded")??;
    let seen = seen.as_array().context("no toggle was recorded")?;
    let green = seen
        .iter()
        .find(|it| it["light"] == "green")
        .context("the toggle is not green")?;
    let green = green["at"].as_i64().context("no time")?;
    let later = green - through.ended;
    let stages: Vec<String> = seen.iter().map(describe_page).collect();
    let early = through.failed.filter(|failed| *failed > green);
    ensure!(
        early.is_none(),
        "a request that began {} ms after green failed: {stages:?}",
        early.unwrap_or_default() - green
    );
    ensure!(
        later <= MAX_DELAY_MILLIS,
        "green only {later} ms after the first successful request: {stages:?}"
    );
    Ok(Figures {
        request: through.ended - created,
        page_delay: later,
        stages,
    })
}

fn describe_page(seen: &Value) -> String {
    let text = |key: &str| seen[key].as_str().unwrap_or_default().to_owned();
    match text("stage") {
        stage if stage.is_empty() => text("light"),
        stage => format!("{} {stage}", text("light")),
    }
}

/// The first successful request, and the failed ones before it.
struct FirstSuccess {
    /// When the response arrived.
    ended: i64,
    /// When the last failed request was sent.
    failed: Option<i64>,
}

/// Sends requests until the service of `hostname` responds.
async fn first_success(listen: &str, hostname: &str) -> Result<FirstSuccess> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut failed = None;
    loop {
        let began = now();
        let request = client.get(format!("http://{listen}/")).header(HOST, hostname);
        if let Ok(response) = request.send().await
            && response.status().is_success()
        {
            let ended = now();
            return Ok(FirstSuccess { ended, failed });
        }
        failed = Some(began);
        sleep(POLL_INTERVAL).await;
    }
}

fn now() -> i64 {
    Clock::system().now().as_millisecond()
}

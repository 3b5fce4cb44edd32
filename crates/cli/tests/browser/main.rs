//! The page in a real browser, ten times: no request that begins after a toggle turns green fails, and the time to
//! green is printed; the browser reports no errors; and without scripts the rows are there too.
//!
//! Needs the distribution's chromium, so it runs only on request:
//! `cargo test -p aplomb-cli --test browser`. With `-- --pictures URL KUBECONFIG DIRECTORY` it takes the
//! screenshots of the documentation instead, of a page that is already served.
#![forbid(unsafe_code)]

mod chromium;
mod runs;
mod screenshots;
mod stage;

use anyhow::{Result, bail, ensure};
use serde_json::json;

use chromium::{Chromium, Tab};
use stage::Stage;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().position(|arg| arg == "--pictures") {
        Some(at) => match &args[at + 1..] {
            [url, kubeconfig, directory] => {
                screenshots::take_screenshots(url, kubeconfig.as_ref(), directory.as_ref()).await
            }
            _ => bail!("--pictures URL KUBECONFIG DIRECTORY"),
        },
        None => run_tests().await,
    }
}

async fn run_tests() -> Result<()> {
    let stage = Stage::set_up().await?;
    let mut browser = Chromium::start(stage.dir())?;
    let tab = browser.open_tab().await?;
    let observer = json!({ "source": runs::OBSERVER });
    let document = "Page.addScriptToEvaluateOnNewDocument";
    browser.call(&tab, document, observer).await?;
    browser.navigate(&tab, &stage.page).await?;
    runs::run_all(&stage, &mut browser, &tab).await?;
    let name = browser.evaluate(&tab, "document.body.dataset.connection").await?;
    ensure!(name == "live", "the connection is {name}");
    println!("ok      green after the first request, never before, ten times");
    check_trace(&stage, &mut browser, &tab).await?;
    println!("ok      a tunnel's own page shows its stages");
    check_without_scripts(&stage, &mut browser).await?;
    println!("ok      without scripts the rows are there, and the page refreshes itself");
    let complaints = browser.console_errors();
    ensure!(complaints.is_empty(), "the browser reports errors: {complaints:#?}");
    println!("ok      no browser errors\n4 passed, 0 failed");
    Ok(())
}

/// The page of one tunnel.
async fn check_trace(stage: &Stage, browser: &mut Chromium, tab: &Tab) -> Result<()> {
    let url = format!("{}/trace/HTTPProxy/default/run-1", stage.page);
    browser.navigate(tab, &url).await?;
    let text = "document.querySelector('svg.picture').textContent";
    let text = browser.evaluate(tab, text).await?.to_string().to_lowercase();
    ensure!(text.contains("proven") && text.contains("programmed"), "{text}");
    Ok(())
}

async fn check_without_scripts(stage: &Stage, browser: &mut Chromium) -> Result<()> {
    let tab = browser.open_tab().await?;
    let off = json!({ "value": true });
    browser.call(&tab, "Emulation.setScriptExecutionDisabled", off).await?;
    browser.navigate(&tab, &stage.page).await?;
    let rows = count_rows(browser, &tab).await?;
    ensure!(rows == 10, "{rows} rows of ten tunnels");
    browser.wait_event(&tab, "Page.loadEventFired").await
}

async fn count_rows(browser: &mut Chromium, tab: &Tab) -> Result<usize> {
    let root = browser.call(tab, "DOM.getDocument", json!({})).await?;
    let query = json!({
        "nodeId": root["root"]["nodeId"],
        "selector": "tr[data-kind=HTTPProxy] td[data-column=Ready]",
    });
    let found = browser.call(tab, "DOM.querySelectorAll", query).await?;
    Ok(found["nodeIds"].as_array().map_or(0, Vec::len))
}

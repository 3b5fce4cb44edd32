//! `aplomb connect`, as people and programs use it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::stage::Stage;
use crate::{HOME, Play, Tally};

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note(
        "aplomb connect --json prints each stage and the URL",
        stages(play).await,
    );
    tally.note(
        "kubectl wait for Ready returns when curl works",
        wait(&play.stage, &play.endpoint()),
    );
    tally.note("the columns show whether it works", columns(&play.stage));
    tally.note(
        "an agent's Role is limited to its namespace",
        elsewhere(&play.stage).await,
    );
    tally.note(
        "a stopped agent is offline at once and leaves its tunnel",
        release(play).await,
    );
    tally.note(
        "--delete-on-exit deletes the tunnel",
        along(&play.stage, play.origin.port),
    );
}

/// The agent's own HTTPProxy: the last line is a URL that works.
async fn stages(play: &Play) -> Result<()> {
    let ready = async || {
        events(&play.agent.printed())
            .iter()
            .any(|event| event.get("url").is_some())
    };
    play.stage.eventually("a URL is printed", ready).await?;
    let events = events(&play.agent.printed());
    let words: Vec<_> = events
        .iter()
        .map(|event| event["event"].to_string())
        .collect();
    println!("        {}", words.join(" "));
    let url = events.iter().find_map(|event| event["url"].as_str());
    let url = url.context("there is a URL")?;
    let hostname = url
        .split("://")
        .nth(1)
        .and_then(|rest| rest.split(['/', ':']).next());
    let hostname = hostname.context("a URL has a host")?;
    let body = Curl::http(play.stage.listen(), hostname, "/").body()?;
    ensure!(body == "home\n", "{body}");
    Ok(())
}

/// Each line of standard output is an event.
fn events(printed: &str) -> Vec<Value> {
    printed
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn wait(stage: &Stage, endpoint: &str) -> Result<()> {
    for round in 0..5 {
        let (name, hostname) = (format!("wait-{round}"), format!("wait-{round}.example.com"));
        let began = Instant::now();
        stage.apply(&tunnel(HOME, &name, &hostname, HOME, endpoint))?;
        stage.wait(HOME, &format!("httpproxy/{name}"), "condition=Ready")?;
        let body = Curl::http(stage.listen(), &hostname, "/").body()?;
        ensure!(body == "home\n", "{body}");
        println!("        apply, wait and curl took {:.1?}", began.elapsed());
    }
    let all: Vec<String> = (0..5)
        .map(|round| format!("httpproxy/wait-{round}"))
        .collect();
    let mut args = vec!["delete", "-n", HOME];
    args.extend(all.iter().skip(1).map(String::as_str));
    stage.kubectl(&args)?;
    Ok(())
}

fn columns(stage: &Stage) -> Result<()> {
    let shown = stage.kubectl(&["get", "hp", "-n", HOME, "wait-0"])?;
    let head: Vec<_> = shown
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let wanted = [
        "NAME",
        "HOSTNAME",
        "CONNECTOR",
        "PROGRAMMED",
        "READY",
        "REASON",
        "AGE",
    ];
    ensure!(head == wanted, "{shown}");
    let row = shown.lines().nth(1).unwrap_or_default();
    ensure!(
        row.contains("wait-0.example.com") && row.contains("True"),
        "{shown}"
    );
    print!(
        "{}",
        shown
            .lines()
            .map(|line| format!("        {line}\n"))
            .collect::<String>()
    );
    Ok(())
}

/// The agent of one namespace tries to use another one.
async fn elsewhere(stage: &Stage) -> Result<()> {
    let kubeconfig = stage.kubeconfig(HOME, crate::stage::AGENT)?;
    stage.tenant("elsewhere")?;
    let theirs = stage
        .dir()
        .join(format!("elsewhere-{}.kubeconfig", crate::stage::AGENT));
    std::fs::copy(kubeconfig, &theirs)?;
    let mut agent = stage.agent("elsewhere", "intruder", "9", &[])?;
    let refused = async || {
        let said = format!("{}{}", agent.log(), agent.printed()).to_lowercase();
        said.contains("forbidden") || said.contains("may not")
    };
    stage
        .eventually("the request is rejected", refused)
        .await?;
    agent.kill()?;
    std::fs::remove_file(theirs)?;
    let made = stage.kubectl(&[
        "get",
        "connectors,httpproxies",
        "-n",
        "elsewhere",
        "-o",
        "name",
    ])?;
    ensure!(made.is_empty(), "{made}");
    Ok(())
}

/// SIGTERM: offline within a second, the HTTPProxy stays; then the agent restarts.
async fn release(play: &mut Play) -> Result<()> {
    let stage = &play.stage;
    let mut agent = stage.agent(HOME, "leaves", &play.origin.port.to_string(), &[])?;
    stage.wait(HOME, "httpproxy/leaves", "create")?;
    stage.wait(HOME, "httpproxy/leaves", "condition=Ready")?;
    let began = Instant::now();
    agent.terminate()?;
    let reason = ".status.conditions[?(@.type==\"Online\")].reason";
    let offline = async || {
        stage
            .value(HOME, "connector/leaves", reason)
            .is_ok_and(|r| r == "Released")
    };
    stage.eventually("it is Released", offline).await?;
    println!(
        "        offline {:.1?} after SIGTERM, two kubectl included",
        began.elapsed()
    );
    let hostname = stage.value(HOME, "httpproxy/leaves", ".status.canonicalHostname")?;
    Curl::http(stage.listen(), &hostname, "/")
        .answer()?
        .is(503, "ConnectorOffline")?;
    stage.kubectl(&["delete", "-n", HOME, "httpproxy/leaves", "connector/leaves"])?;
    Ok(())
}

/// `--delete-on-exit` leaves nothing.
fn along(stage: &Stage, port: u16) -> Result<()> {
    let mut agent = stage.agent(HOME, "brief", &port.to_string(), &["--delete-on-exit"])?;
    stage.wait(HOME, "httpproxy/brief", "create")?;
    stage.wait(HOME, "httpproxy/brief", "condition=Ready")?;
    agent.terminate()?;
    for object in ["httpproxy/brief", "connector/brief"] {
        stage.wait(HOME, object, "delete")?;
    }
    Ok(())
}

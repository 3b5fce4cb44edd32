//! `aplomb connect`, as people and programs use it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::stage::Stage;
use crate::{TENANT, Tally, TestRun};

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record(
        "aplomb connect --json prints each stage and the URL",
        check_stages(play).await,
    );
    tally.record(
        "kubectl wait for Ready returns when curl works",
        wait_proven(&play.stage, &play.endpoint()),
    );
    tally.record("the columns show whether it works", check_columns(&play.stage));
    tally.record(
        "an agent's Role is limited to its namespace",
        check_other_namespace(&play.stage).await,
    );
    tally.record(
        "a stopped agent is offline at once and leaves its tunnel",
        check_release(play).await,
    );
    tally.record(
        "--delete-on-exit deletes the tunnel",
        connect_with_port(&play.stage, play.origin.port),
    );
}

/// The agent's own HTTPProxy: the last line is a URL that works.
async fn check_stages(play: &TestRun) -> Result<()> {
    let ready = async || {
        parse_events(&play.agent.stdout_text())
            .iter()
            .any(|event| event.get("url").is_some())
    };
    play.stage.wait_until("a URL is printed", ready).await?;
    let events = parse_events(&play.agent.stdout_text());
    let words: Vec<_> = events.iter().map(|event| event["event"].to_string()).collect();
    println!("        {}", words.join(" "));
    let url = events.iter().find_map(|event| event["url"].as_str());
    let url = url.context("there is a URL")?;
    let hostname = url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next());
    let hostname = hostname.context("a URL has a host")?;
    let body = Curl::http(play.stage.listen_address(), hostname, "/").fetch_body()?;
    ensure!(body == "home\n", "{body}");
    Ok(())
}

/// Each line of standard output is an event.
fn parse_events(printed: &str) -> Vec<Value> {
    printed
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn wait_proven(stage: &Stage, endpoint: &str) -> Result<()> {
    for round in 0..5 {
        let (name, hostname) = (format!("wait-{round}"), format!("wait-{round}.example.com"));
        let began = Instant::now();
        stage.apply(&tunnel(TENANT, &name, &hostname, TENANT, endpoint))?;
        stage.wait_for(TENANT, &format!("httpproxy/{name}"), "condition=Ready")?;
        let body = Curl::http(stage.listen_address(), &hostname, "/").fetch_body()?;
        ensure!(body == "home\n", "{body}");
        println!("        apply, wait and curl took {:.1?}", began.elapsed());
    }
    let all: Vec<String> = (0..5).map(|round| format!("httpproxy/wait-{round}")).collect();
    let mut args = vec!["delete", "-n", TENANT];
    args.extend(all.iter().skip(1).map(String::as_str));
    stage.kubectl(&args)?;
    Ok(())
}

fn check_columns(stage: &Stage) -> Result<()> {
    let shown = stage.kubectl(&["get", "hp", "-n", TENANT, "wait-0"])?;
    let head: Vec<_> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
    let wanted = ["NAME", "HOSTNAME", "CONNECTOR", "PROGRAMMED", "READY", "REASON", "AGE"];
    ensure!(head == wanted, "{shown}");
    let row = shown.lines().nth(1).unwrap_or_default();
    ensure!(row.contains("wait-0.example.com") && row.contains("True"), "{shown}");
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
async fn check_other_namespace(stage: &Stage) -> Result<()> {
    let kubeconfig = stage.kubeconfig(TENANT, crate::stage::AGENT)?;
    stage.create_tenant("elsewhere")?;
    let theirs = stage
        .dir()
        .join(format!("elsewhere-{}.kubeconfig", crate::stage::AGENT));
    std::fs::copy(kubeconfig, &theirs)?;
    let mut agent = stage.start_agent("elsewhere", "intruder", "9", &[])?;
    let refused = async || {
        let said = format!("{}{}", agent.log(), agent.stdout_text()).to_lowercase();
        said.contains("forbidden") || said.contains("may not")
    };
    stage.wait_until("the request is rejected", refused).await?;
    agent.kill()?;
    std::fs::remove_file(theirs)?;
    let made = stage.kubectl(&["get", "connectors,httpproxies", "-n", "elsewhere", "-o", "name"])?;
    ensure!(made.is_empty(), "{made}");
    Ok(())
}

/// SIGTERM: offline within a second, the HTTPProxy stays; then the agent restarts.
async fn check_release(play: &mut TestRun) -> Result<()> {
    let stage = &play.stage;
    let mut agent = stage.start_agent(TENANT, "leaves", &play.origin.port.to_string(), &[])?;
    stage.wait_for(TENANT, "httpproxy/leaves", "create")?;
    stage.wait_for(TENANT, "httpproxy/leaves", "condition=Ready")?;
    let began = Instant::now();
    agent.terminate()?;
    let reason = ".status.conditions[?(@.type==\"Online\")].reason";
    let offline = async || {
        stage
            .read_field(TENANT, "connector/leaves", reason)
            .is_ok_and(|r| r == "Released")
    };
    stage.wait_until("it is Released", offline).await?;
    println!(
        "        offline {:.1?} after SIGTERM, two kubectl included",
        began.elapsed()
    );
    let hostname = stage.read_field(TENANT, "httpproxy/leaves", ".status.canonicalHostname")?;
    Curl::http(stage.listen_address(), &hostname, "/")
        .send()?
        .expect(503, "ConnectorOffline")?;
    stage.kubectl(&["delete", "-n", TENANT, "httpproxy/leaves", "connector/leaves"])?;
    Ok(())
}

/// `--delete-on-exit` leaves nothing.
fn connect_with_port(stage: &Stage, port: u16) -> Result<()> {
    let mut agent = stage.start_agent(TENANT, "brief", &port.to_string(), &["--delete-on-exit"])?;
    stage.wait_for(TENANT, "httpproxy/brief", "create")?;
    stage.wait_for(TENANT, "httpproxy/brief", "condition=Ready")?;
    agent.terminate()?;
    for object in ["httpproxy/brief", "connector/brief"] {
        stage.wait_for(TENANT, object, "delete")?;
    }
    Ok(())
}

//! Our tunnel: the box as the API server; operator, gateway and agent as processes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::Subject;
use crate::peers::{Running, free_port, wait_until_listening};

fn aplomb(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aplomb"));
    command.args(args).env("RUST_LOG", "warn");
    command
}

/// Waits for a line with `part` in the file, and returns it.
fn wait_for_line(path: &Path, part: &str) -> Result<String> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some(line) = text.lines().find(|line| line.contains(part)) {
            return Ok(line.to_owned());
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("{} has no line with {part}", path.display())
}

pub(crate) fn start(dir: &Path, origin: u16) -> Result<(Subject, Vec<Running>)> {
    let config = dir.join("box.kubeconfig");
    let config = config.to_str().context("a path")?;
    let (api, listen) = (address()?, address()?);
    let mut running = vec![Running::start(&mut aplomb(&[
        "box",
        "--listen",
        &api,
        "--kubeconfig",
        config,
    ]))?];
    wait_until_listening(&api)?;
    let kinds = aplomb(&["crds", "--apply", "--kubeconfig", config]).status()?;
    ensure!(kinds.success(), "aplomb crds --apply failed");
    let operator = ["run", "tunnel", "--domain", "tunnels.example.com"];
    for words in [&operator[..], &["gateway", "--listen", &listen]] {
        running.push(Running::start(aplomb(words).args(["--kubeconfig", config]))?);
    }
    wait_until_listening(&listen)?;
    let (host, agent) = connect(dir, config, origin)?;
    running.push(agent);
    let way = Subject {
        name: "aplomb",
        address: listen,
        host,
    };
    Ok((way, running))
}

fn address() -> Result<String> {
    Ok(format!("127.0.0.1:{}", free_port()?))
}

/// An agent with a proven tunnel, and the tunnel's hostname.
fn connect(dir: &Path, config: &str, origin: u16) -> Result<(String, Running)> {
    let (printed, key) = (dir.join("connect.out"), dir.join("connect.key"));
    let mut agent = aplomb(&[
        "connect",
        &origin.to_string(),
        "--kubeconfig",
        config,
        "--name",
        "bench",
        "--json",
        "--key-file",
    ]);
    let running = Running::start_with_output(agent.arg(key), &printed)?;
    let event: serde_json::Value = serde_json::from_str(&wait_for_line(&printed, "\"url\"")?)?;
    let url = event["url"].as_str().context("a URL")?;
    let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next());
    Ok((host.context("a host")?.to_owned(), running))
}

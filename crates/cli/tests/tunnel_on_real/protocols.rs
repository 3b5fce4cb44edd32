//! HTTP/1.1, HTTP/2, WebSocket, events and large bodies, with stock programs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::{CONNECTOR_ONLY, TENANT, Tally, TestRun};

const HOST: &str = "app.example.com";
/// How large a body is, and how much more memory it may take. That a whole GiB takes no more is shown by the long run.
const BODY: u64 = 64 << 20;
const LONG_BODY: u64 = 1 << 30;
const MORE_MIB: u64 = 48;

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally, long: bool) {
    let size = if long { LONG_BODY } else { BODY };
    tally.record("a tunnel for the protocols", set_up(play));
    tally.record("HTTP/1.1 and HTTP/2", check_http_versions(play));
    tally.record("headers, status and trailers pass", check_headers(play));
    tally.record("server-sent events arrive at once", check_event_stream(play));
    tally.record("WebSocket by a stock client", check_websocket(play));
    tally.record(
        "a large body up and down in constant memory",
        check_large_bodies(play, size),
    );
    let _gone = play.stage.kubectl(&["delete", "hp", "-n", TENANT, "app"]);
}

fn set_up(play: &TestRun) -> Result<()> {
    play.stage
        .apply(&tunnel(TENANT, "app", HOST, TENANT, &play.endpoint()))?;
    play.stage.wait_for(TENANT, "httpproxy/app", "condition=Ready")
}

fn curl(play: &TestRun, path: &str) -> Curl {
    Curl::http(play.stage.listen_address(), HOST, path)
}

fn check_http_versions(play: &TestRun) -> Result<()> {
    for (flag, version) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        let answer = curl(play, "/headers").with_args(&[flag]).send()?;
        ensure!(answer.status == 200 && answer.version == version, "{answer:?}");
        ensure!(!answer.header("x-aplomb-revision").is_empty(), "{answer:?}");
        ensure!(answer.body.contains(HOST), "{answer:?}");
    }
    Ok(())
}

fn check_headers(play: &TestRun) -> Result<()> {
    let head = ["-H", "X-Of-Mine: a value", "-X", "DELETE"];
    let body = curl(play, "/headers/a%20b?q=1").with_args(&head).fetch_body()?;
    ensure!(body.contains("x-of-mine: a value"), "{body}");
    ensure!(body.contains("DELETE /headers/a%20b?q=1"), "{body}");
    ensure!(body.contains("x-forwarded-"), "the client's address is missing: {body}");
    for code in [201, 301, 404, 500, 503] {
        let answer = curl(play, &format!("/status/{code}")).send()?;
        ensure!(answer.status == code, "{answer:?}");
        let ours = answer.header("x-aplomb-reason");
        ensure!(ours.is_empty(), "the response must be the origin's: {answer:?}");
    }
    for flag in ["--http1.1", "--http2-prior-knowledge"] {
        // -D prints the headers with trailers, the last received ones at the end.
        let asked = curl(play, "/trailers").with_args(&[flag, "-H", "TE: trailers", "-D", "-"]);
        let told = asked.command().output()?;
        let told = String::from_utf8_lossy(&told.stdout).to_lowercase();
        ensure!(told.contains("x-checksum: of-the-body"), "{flag}: {told}");
    }
    Ok(())
}

fn check_event_stream(play: &TestRun) -> Result<()> {
    // Each event is sent after the previous one has arrived; a delayed one ends this after a minute.
    let mut child = curl(play, "/events/6")
        .with_args(&["-N", "--max-time", "60"])
        .command()
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
    let mut arrived = 0;
    for line in lines {
        if line?.starts_with("data:") {
            arrived += 1;
            play.origin.release(usize::from(arrived < 6));
        }
    }
    child.wait()?;
    ensure!(arrived == 6, "{arrived} events came before the next was sent");
    Ok(())
}

/// A child process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn python(args: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("tools/make/websockets"));
    command.arg(root.join("interop/python/websocket_echo.py")).args(args);
    command
}

fn check_websocket(play: &TestRun) -> Result<()> {
    let mut server = Ended(python(&["serve"]).stdout(Stdio::piped()).spawn()?);
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().context("a pipe")?).read_line(&mut port)?;
    let port = port.trim();
    let _agent = play.stage.start_agent(TENANT, "socket", port, &[CONNECTOR_ONLY])?;
    let endpoint = format!("http://localhost:{port}");
    play.stage
        .apply(&tunnel(TENANT, "sockets", "ws.example.com", "socket", &endpoint))?;
    play.stage.wait_for(TENANT, "httpproxy/sockets", "condition=Ready")?;
    let output = python(&["check", "ws://ws.example.com/chat", play.stage.listen_address()]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    print!("        {}", String::from_utf8_lossy(&output.stdout));
    play.stage
        .kubectl(&["delete", "-n", TENANT, "hp/sockets", "connector/socket"])?;
    Ok(())
}

fn check_large_bodies(play: &TestRun, size: u64) -> Result<()> {
    let gateway = &play.stage.gateways[0].process;
    for (what, way) in [
        ("down", check_download as fn(&TestRun, u64) -> Result<()>),
        ("up", check_upload),
    ] {
        for process in [gateway, &play.agent] {
            process.reset_peak()?;
        }
        let before = [gateway.peak_memory()?, play.agent.peak_memory()?];
        let began = Instant::now();
        way(play, size)?;
        let seconds = began.elapsed().as_secs_f64();
        let after = [gateway.peak_memory()?, play.agent.peak_memory()?];
        println!(
            "        {} MiB {what} in {seconds:.1} s; peak MiB of the gateway {} -> {}, of the agent {} -> {}",
            size >> 20,
            before[0],
            after[0],
            before[1],
            after[1]
        );
        for (before, after) in before.iter().zip(after) {
            ensure!(after < before + MORE_MIB, "memory grew from {before} to {after} MiB");
        }
    }
    Ok(())
}

fn check_download(play: &TestRun, bytes: u64) -> Result<()> {
    let path = format!("/bytes/{bytes}");
    let output = curl(play, &path)
        .with_args(&["-o", "/dev/null", "-w", "%{size_download}"])
        .command()
        .output()?;
    let size = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && size == bytes.to_string(),
        "{size} bytes arrived: {output:?}"
    );
    Ok(())
}

fn check_upload(play: &TestRun, bytes: u64) -> Result<()> {
    let mut zeros = Command::new("head")
        .args(["-c", &bytes.to_string(), "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()?;
    let from = zeros.stdout.take().context("a pipe")?;
    let output = curl(play, "/upload")
        .with_args(&["-T", "-"])
        .command()
        .stdin(from)
        .output()?;
    zeros.wait()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.trim() == format!("{bytes} bytes"), "{said} {output:?}");
    Ok(())
}

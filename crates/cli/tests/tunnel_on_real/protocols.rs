//! HTTP/1.1, HTTP/2, WebSocket, events, large bodies: all by stock programs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::{CONNECTOR_ONLY, TENANT, TestRun, Tally};

const HOST: &str = "app.example.com";
const GIB: u64 = 1 << 30;

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record("a tunnel for the protocols", set_up(play));
    tally.record("HTTP/1.1 and HTTP/2", check_http_versions(play));
    tally.record("headers, status and trailers pass", check_headers(play));
    tally.record("server-sent events come as they are sent", check_event_stream(play));
    tally.record("WebSocket by a stock client", check_websocket(play));
    tally.record("1 GiB up and down in constant memory", check_large_bodies(play));
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
        ensure!(
            answer.status == 200 && answer.version == version,
            "{answer:?}"
        );
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
    ensure!(
        body.contains("x-forwarded-"),
        "who asked is not told: {body}"
    );
    for code in [201, 301, 404, 500, 503] {
        let answer = curl(play, &format!("/status/{code}")).send()?;
        ensure!(answer.status == code, "{answer:?}");
        let ours = answer.header("x-aplomb-reason");
        ensure!(
            ours.is_empty(),
            "the origin said it, not the gateway: {answer:?}"
        );
    }
    for flag in ["--http1.1", "--http2-prior-knowledge"] {
        // Among the headers it has received, -D shows those that came last.
        let asked = curl(play, "/trailers").with_args(&[flag, "-H", "TE: trailers", "-D", "-"]);
        let told = asked.command().output()?;
        let told = String::from_utf8_lossy(&told.stdout).to_lowercase();
        ensure!(told.contains("x-checksum: of-the-body"), "{flag}: {told}");
    }
    Ok(())
}

fn check_event_stream(play: &TestRun) -> Result<()> {
    // The next one is sent when the one before is here; one that is kept back ends this after a minute.
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
    ensure!(
        arrived == 6,
        "{arrived} events came before the next was sent"
    );
    Ok(())
}

/// A child that is ended with the test.
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
    command
        .arg(root.join("interop/python/websocket.py"))
        .args(args);
    command
}

fn check_websocket(play: &TestRun) -> Result<()> {
    let mut server = Ended(python(&["serve"]).stdout(Stdio::piped()).spawn()?);
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().context("a pipe")?).read_line(&mut port)?;
    let port = port.trim();
    let _agent = play.stage.start_agent(TENANT, "socket", port, &[CONNECTOR_ONLY])?;
    let endpoint = format!("http://localhost:{port}");
    play.stage.apply(&tunnel(
        TENANT,
        "sockets",
        "ws.example.com",
        "socket",
        &endpoint,
    ))?;
    play.stage
        .wait_for(TENANT, "httpproxy/sockets", "condition=Ready")?;
    let output = python(&["check", "ws://ws.example.com/chat", play.stage.listen_address()]).output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    print!("        {}", String::from_utf8_lossy(&output.stdout));
    play.stage
        .kubectl(&["delete", "-n", TENANT, "hp/sockets", "connector/socket"])?;
    Ok(())
}

fn check_large_bodies(play: &TestRun) -> Result<()> {
    let gateway = &play.stage.gateways[0].process;
    for (what, way) in [
        ("down", check_download as fn(&TestRun) -> Result<()>),
        ("up", check_upload),
    ] {
        for process in [gateway, &play.agent] {
            process.reset_peak()?;
        }
        let before = [gateway.peak_memory()?, play.agent.peak_memory()?];
        let began = Instant::now();
        way(play)?;
        let seconds = began.elapsed().as_secs_f64();
        let after = [gateway.peak_memory()?, play.agent.peak_memory()?];
        println!(
            "        1 GiB {what} in {seconds:.1} s; peak MiB of the gateway {} -> {}, of the agent {} -> {}",
            before[0], after[0], before[1], after[1]
        );
        for (before, after) in before.iter().zip(after) {
            ensure!(
                after < before + 64,
                "memory grew from {before} to {after} MiB"
            );
        }
    }
    Ok(())
}

fn check_download(play: &TestRun) -> Result<()> {
    let path = format!("/bytes/{GIB}");
    let output = curl(play, &path)
        .with_args(&["-o", "/dev/null", "-w", "%{size_download}"])
        .command()
        .output()?;
    let size = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && size == GIB.to_string(),
        "{size} bytes came: {output:?}"
    );
    Ok(())
}

fn check_upload(play: &TestRun) -> Result<()> {
    let mut zeros = Command::new("head")
        .args(["-c", &GIB.to_string(), "/dev/zero"])
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
    ensure!(said.trim() == format!("{GIB} bytes"), "{said} {output:?}");
    Ok(())
}

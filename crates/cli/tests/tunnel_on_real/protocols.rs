//! HTTP/1.1, HTTP/2, WebSocket, events and large bodies, with stock programs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::{ALONE, HOME, Play, Tally};

const HOST: &str = "app.example.com";
const GIB: u64 = 1 << 30;

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note("a tunnel for the protocols", set(play));
    tally.note("HTTP/1.1 and HTTP/2", versions(play));
    tally.note("headers, status and trailers pass", heads(play));
    tally.note("server-sent events arrive at once", events(play));
    tally.note("WebSocket by a stock client", websocket(play));
    tally.note("1 GiB up and down in constant memory", large(play));
    let _gone = play.stage.kubectl(&["delete", "hp", "-n", HOME, "app"]);
}

fn set(play: &Play) -> Result<()> {
    play.stage
        .apply(&tunnel(HOME, "app", HOST, HOME, &play.endpoint()))?;
    play.stage.wait(HOME, "httpproxy/app", "condition=Ready")
}

fn curl(play: &Play, path: &str) -> Curl {
    Curl::http(play.stage.listen(), HOST, path)
}

fn versions(play: &Play) -> Result<()> {
    for (flag, version) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        let answer = curl(play, "/headers").with(&[flag]).answer()?;
        ensure!(
            answer.status == 200 && answer.version == version,
            "{answer:?}"
        );
        ensure!(!answer.header("x-aplomb-revision").is_empty(), "{answer:?}");
        ensure!(answer.body.contains(HOST), "{answer:?}");
    }
    Ok(())
}

fn heads(play: &Play) -> Result<()> {
    let head = ["-H", "X-Of-Mine: a value", "-X", "DELETE"];
    let body = curl(play, "/headers/a%20b?q=1").with(&head).body()?;
    ensure!(body.contains("x-of-mine: a value"), "{body}");
    ensure!(body.contains("DELETE /headers/a%20b?q=1"), "{body}");
    ensure!(
        body.contains("x-forwarded-"),
        "the client's address is missing: {body}"
    );
    for code in [201, 301, 404, 500, 503] {
        let answer = curl(play, &format!("/status/{code}")).answer()?;
        ensure!(answer.status == code, "{answer:?}");
        let ours = answer.header("x-aplomb-reason");
        ensure!(
            ours.is_empty(),
            "the response must be the origin's: {answer:?}"
        );
    }
    for flag in ["--http1.1", "--http2-prior-knowledge"] {
        // -D prints the headers with trailers, the last received ones at the end.
        let asked = curl(play, "/trailers").with(&[flag, "-H", "TE: trailers", "-D", "-"]);
        let told = asked.command().output()?;
        let told = String::from_utf8_lossy(&told.stdout).to_lowercase();
        ensure!(told.contains("x-checksum: of-the-body"), "{flag}: {told}");
    }
    Ok(())
}

fn events(play: &Play) -> Result<()> {
    // Each event is sent after the previous one has arrived; a delayed one ends this after a minute.
    let mut child = curl(play, "/events/6")
        .with(&["-N", "--max-time", "60"])
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
    command
        .arg(root.join("interop/python/websocket.py"))
        .args(args);
    command
}

fn websocket(play: &Play) -> Result<()> {
    let mut server = Ended(python(&["serve"]).stdout(Stdio::piped()).spawn()?);
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().context("a pipe")?).read_line(&mut port)?;
    let port = port.trim();
    let _agent = play.stage.agent(HOME, "socket", port, &[ALONE])?;
    let endpoint = format!("http://localhost:{port}");
    play.stage.apply(&tunnel(
        HOME,
        "sockets",
        "ws.example.com",
        "socket",
        &endpoint,
    ))?;
    play.stage
        .wait(HOME, "httpproxy/sockets", "condition=Ready")?;
    let output = python(&["check", "ws://ws.example.com/chat", play.stage.listen()]).output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    print!("        {}", String::from_utf8_lossy(&output.stdout));
    play.stage
        .kubectl(&["delete", "-n", HOME, "hp/sockets", "connector/socket"])?;
    Ok(())
}

fn large(play: &Play) -> Result<()> {
    let gateway = &play.stage.gateways[0].process;
    for (what, way) in [
        ("down", download as fn(&Play) -> Result<()>),
        ("up", upload),
    ] {
        for process in [gateway, &play.agent] {
            process.reset_peak()?;
        }
        let before = [gateway.peak()?, play.agent.peak()?];
        let began = Instant::now();
        way(play)?;
        let seconds = began.elapsed().as_secs_f64();
        let after = [gateway.peak()?, play.agent.peak()?];
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

fn download(play: &Play) -> Result<()> {
    let path = format!("/bytes/{GIB}");
    let output = curl(play, &path)
        .with(&["-o", "/dev/null", "-w", "%{size_download}"])
        .command()
        .output()?;
    let size = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && size == GIB.to_string(),
        "{size} bytes arrived: {output:?}"
    );
    Ok(())
}

fn upload(play: &Play) -> Result<()> {
    let mut zeros = Command::new("head")
        .args(["-c", &GIB.to_string(), "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()?;
    let from = zeros.stdout.take().context("a pipe")?;
    let output = curl(play, "/upload")
        .with(&["-T", "-"])
        .command()
        .stdin(from)
        .output()?;
    zeros.wait()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.trim() == format!("{GIB} bytes"), "{said} {output:?}");
    Ok(())
}

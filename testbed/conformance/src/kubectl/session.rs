//! One script on one host: runs its steps in a directory of its own, keeps what they did.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aplomb_controlplane::{Binaries, Program, gateway_api_crds};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use super::host::Host;
use super::normal::Normal;
use super::script::{Action, Expect, Script};

const PATIENCE: Duration = Duration::from_secs(90);
/// The custom resources of the other suites.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/fixtures");
/// How long `%` repeats: the real garbage collector looks for new kinds every 30 seconds.
const SETTLING: Duration = Duration::from_secs(60);

/// What one command did.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// The file's line.
    pub line: usize,
    /// The command.
    pub command: String,
    /// What is expected of its exit code.
    pub expected: Expect,
    /// The exit code it had.
    pub code: i32,
    /// Both output streams, comparable.
    pub output: String,
}

/// A script being played; commands run one after the other.
#[derive(Debug)]
pub struct Session {
    place: TempDir,
    path: String,
    gateway_api: PathBuf,
    normal: Normal,
    outcomes: Vec<Outcome>,
    running: Option<Running>,
}

/// A command that goes on.
#[derive(Debug)]
struct Running {
    line: usize,
    command: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: String,
}

/// Plays a script and returns what each compared command did.
///
/// # Errors
/// When a command cannot be run at all; a wrong exit code is an outcome, not an error.
pub async fn play(host: &Host, script: &Script) -> Result<Vec<Outcome>> {
    let mut session = Session::start(host, script).await?;
    for step in &script.steps {
        session
            .step(step.line, &step.action)
            .await
            .with_context(|| format!("{}.script:{} on {}", script.name, step.line, host.name))?;
    }
    Ok(session.outcomes)
}

impl Session {
    async fn start(host: &Host, script: &Script) -> Result<Self> {
        let place = tempfile::tempdir()?;
        for (name, text) in &script.files {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(place.path()))?;
            std::fs::write(path, text)?;
        }
        std::fs::copy(&host.kubeconfig, place.path().join("kubeconfig"))?;
        let mut normal = Normal::default();
        normal.hide(place.path());
        let session = Self {
            path: search_path()?,
            gateway_api: gateway_api_crds()?,
            place,
            normal,
            outcomes: Vec::new(),
            running: None,
        };
        session.own_namespace(&script.name).await?;
        Ok(session)
    }

    /// A namespace of the script's name, which every command is in, with what controllers put there.
    async fn own_namespace(&self, name: &str) -> Result<()> {
        let prepare =
            format!("kubectl create namespace {name} && kubectl config set-context --current --namespace={name}");
        let output = self.run(&prepare).await?.context("it did not end")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "namespace {name}: {words}");
        Ok(())
    }

    async fn step(&mut self, line: usize, action: &Action) -> Result<()> {
        match action {
            Action::Run(expected, command) => self.compare(line, *expected, command).await,
            Action::Until(command) => self.until(command).await,
            Action::Begin(command) => self.begin(line, command),
            Action::Lines(count) => self.lines(*count).await,
            Action::End => self.end().await,
        }
    }

    async fn compare(&mut self, line: usize, expected: Expect, command: &str) -> Result<()> {
        // Without an end there is no output either: an outcome like any other.
        let output = self.run(command).await?;
        let text = match (&output, expected) {
            (None, _) => "(did not end)".to_owned(),
            (Some(_), Expect::SuccessUnseen) => String::new(),
            (Some(output), _) => self.normal.apply(&both_streams(output)),
        };
        self.outcomes.push(Outcome {
            line,
            command: command.to_owned(),
            expected,
            code: output.and_then(|it| it.status.code()).unwrap_or(-1),
            output: text,
        });
        Ok(())
    }

    async fn until(&self, command: &str) -> Result<()> {
        let deadline = Instant::now() + SETTLING;
        loop {
            let output = self.run(command).await?;
            let done = output.is_some_and(|output| output.status.success());
            if done || Instant::now() > deadline {
                // What comes next shows what is missing, on both servers.
                return Ok(());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// What a command did; nothing when it has to be ended.
    async fn run(&self, command: &str) -> Result<Option<Output>> {
        let child = self.shell(command).spawn().context("starting a shell")?;
        let output = timeout(PATIENCE, child.wait_with_output()).await;
        Ok(output.ok().transpose()?)
    }

    fn shell(&self, command: &str) -> Command {
        let place = self.place.path();
        let mut shell = Command::new("bash");
        shell
            .args(["-uo", "pipefail", "-c", command])
            .current_dir(place)
            .env("KUBECONFIG", place.join("kubeconfig"))
            .env("HOME", place)
            .env("PATH", &self.path)
            .env("TMPDIR", place)
            .env("KUBECTL_COMMAND_HEADERS", "false")
            .env("GATEWAY_API", &self.gateway_api)
            .env("FIXTURES", FIXTURES)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        shell
    }

    fn begin(&mut self, line: usize, command: &str) -> Result<()> {
        ensure!(self.running.is_none(), "only one command can go on");
        let mut child = self.shell(&format!("exec {command}")).spawn()?;
        let stdout = child.stdout.take().context("kubectl has no output")?;
        self.running = Some(Running {
            line,
            command: command.to_owned(),
            child,
            lines: BufReader::new(stdout).lines(),
            seen: String::new(),
        });
        Ok(())
    }

    async fn lines(&mut self, count: usize) -> Result<()> {
        let running = self.running.as_mut().context("nothing goes on")?;
        for _ in 0..count {
            let next = timeout(Duration::from_secs(20), running.lines.next_line()).await;
            match next.ok().transpose()?.flatten() {
                Some(line) => running.seen.extend([line.as_str(), "\n"]),
                // The end, or nothing for too long: an outcome, since the other server may differ.
                None => running.seen.push_str("(no more lines)\n"),
            }
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<()> {
        let mut running = self.running.take().context("nothing goes on")?;
        running.child.kill().await.context("ending kubectl")?;
        let output = self.normal.apply(&running.seen);
        self.outcomes.push(Outcome {
            line: running.line,
            command: running.command,
            expected: Expect::Success,
            code: 0,
            output,
        });
        Ok(())
    }
}

fn both_streams(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.stderr.is_empty() {
        text.push_str("(stderr)\n");
        text.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    text
}

/// Stock kubectl and helm before everything else: this crate's own program is called kubectl, too.
fn search_path() -> Result<String> {
    let binaries = Binaries::find_or_build()?;
    let folder = |program| -> PathBuf {
        let path: &Path = binaries.path(program);
        path.parent().map(Path::to_owned).unwrap_or_default()
    };
    let kubectl = folder(Program::Kubectl);
    let own = std::env::var("PATH").unwrap_or_default();
    Ok(format!("{}:{own}", kubectl.display()))
}

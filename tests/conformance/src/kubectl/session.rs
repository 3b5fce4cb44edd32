//! One kubectl session on one host: runs commands, keeps what they did.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aplomb_controlplane::{Binaries, Program};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::host::Host;
use super::normal::Normal;

const PATIENCE: Duration = Duration::from_secs(90);

/// What one command did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command line.
    pub step: String,
    /// The exit code it should have.
    pub expected: i32,
    /// The exit code it had.
    pub code: i32,
    /// Both output streams, comparable.
    pub output: String,
}

/// A session; commands run one after the other.
#[derive(Debug)]
pub struct Session {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    home: TempDir,
    normal: Normal,
    outcomes: Vec<Outcome>,
}

impl Session {
    /// Begins a session with a home directory of its own.
    ///
    /// # Errors
    /// When there is no kubectl.
    pub fn start(host: &Host) -> Result<Self> {
        let kubectl = Binaries::find_or_build()?.path(Program::Kubectl).to_owned();
        let home = tempfile::tempdir()?;
        let kubeconfig = host.kubeconfig.clone();
        Ok(Self {
            kubectl,
            kubeconfig,
            home,
            normal: Normal::default(),
            outcomes: Vec::new(),
        })
    }

    /// Runs a command that has to succeed.
    ///
    /// # Errors
    /// When kubectl cannot be run; a wrong exit code is an outcome, not an error.
    pub async fn ok(&mut self, line: &str, stdin: &str) -> Result<()> {
        self.step(line, stdin, 0, true).await
    }

    /// Runs a command that has to fail with exit code 1.
    ///
    /// # Errors
    /// When kubectl cannot be run.
    pub async fn refused(&mut self, line: &str, stdin: &str) -> Result<()> {
        self.step(line, stdin, 1, true).await
    }

    /// Runs a command whose output differs by nature; only the exit code counts.
    ///
    /// # Errors
    /// When kubectl cannot be run.
    pub async fn code_only(&mut self, line: &str, stdin: &str) -> Result<()> {
        self.step(line, stdin, 0, false).await
    }

    async fn step(&mut self, line: &str, stdin: &str, expected: i32, shown: bool) -> Result<()> {
        let output = self.run(line, stdin).await?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let output_text = if shown {
            self.normal.apply(&text)
        } else {
            String::new()
        };
        let code = output.status.code().unwrap_or(-1);
        self.outcomes.push(Outcome {
            step: line.to_owned(),
            expected,
            code,
            output: output_text,
        });
        Ok(())
    }

    async fn run(&self, line: &str, stdin: &str) -> Result<Output> {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .spawn()
            .context("starting kubectl")?;
        let mut pipe = child.stdin.take().context("kubectl has no input")?;
        pipe.write_all(stdin.as_bytes()).await?;
        drop(pipe);
        match timeout(PATIENCE, child.wait_with_output()).await {
            Ok(output) => Ok(output?),
            Err(_) => bail!("kubectl {line} did not end within {PATIENCE:?}"),
        }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .env("KUBECTL_COMMAND_HEADERS", "false")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Starts a command that goes on (`get -w`).
    ///
    /// # Errors
    /// When kubectl cannot be run.
    pub fn begin(&self, line: &str) -> Result<Running> {
        let mut child = self
            .command(line)
            .stdin(Stdio::null())
            .spawn()
            .context("starting kubectl")?;
        let stdout = child.stdout.take().context("kubectl has no output")?;
        let lines = BufReader::new(stdout).lines();
        Ok(Running {
            step: line.to_owned(),
            child,
            lines,
            seen: String::new(),
        })
    }

    /// Ends a command that goes on and keeps what it printed.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub async fn end(&mut self, mut running: Running) -> Result<()> {
        running.child.kill().await.context("ending kubectl")?;
        let output = self.normal.apply(&running.seen);
        self.outcomes.push(Outcome {
            step: running.step,
            expected: 0,
            code: 0,
            output,
        });
        Ok(())
    }

    /// Everything that was done.
    #[must_use]
    pub fn into_outcomes(self) -> Vec<Outcome> {
        self.outcomes
    }
}

/// A command that goes on.
#[derive(Debug)]
pub struct Running {
    step: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: String,
}

impl Running {
    /// Waits for so many more lines.
    ///
    /// # Errors
    /// When they do not come.
    pub async fn lines(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let Ok(line) = timeout(Duration::from_secs(20), self.lines.next_line()).await else {
                bail!("kubectl {} printed only:\n{}", self.step, self.seen);
            };
            let line = line?;
            ensure!(
                line.is_some(),
                "kubectl {} ended after:\n{}",
                self.step,
                self.seen
            );
            self.seen.push_str(&line.unwrap_or_default());
            self.seen.push('\n');
        }
        Ok(())
    }
}

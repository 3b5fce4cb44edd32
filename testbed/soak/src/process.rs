//! A box as a child process: started on a directory, asked, killed.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::wire::{Connection, Target};

/// A start that takes longer than this has failed.
const START: Duration = Duration::from_secs(60);

/// How a box is started.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// A program that takes `box --kubeconfig FILE --data-dir DIR`.
    pub program: PathBuf,
    /// Where it keeps its state and, beside it, its kubeconfig.
    pub directory: PathBuf,
    /// Whether it keeps its state there.
    pub keeps: bool,
    /// The size beyond which the kernel refuses to let a file grow, in bytes.
    pub largest_file: Option<u64>,
}

impl Recipe {
    /// Where the kubeconfig is written.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.with_extension("kubeconfig")
    }

    /// Starts it and does not wait.
    ///
    /// # Errors
    /// There is no such program.
    pub fn spawn(&self) -> Result<Child> {
        let mut command = match self.largest_file {
            None => Command::new(&self.program),
            Some(bytes) => limited(&self.program, bytes),
        };
        command
            .arg("box")
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if self.keeps {
            command.arg("--data-dir").arg(&self.directory);
        }
        command
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready; what it said is in the error.
    pub async fn start(&self) -> Result<Running> {
        let mut child = self.spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(START, lines.next_line())
            .await
            .context("the box is not ready in time")??;
        if !line.is_some_and(|line| line.starts_with("ready ")) {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut said).await?;
            }
            bail!("the box did not start: {}", said.trim());
        }
        let target = Target::read(&self.kubeconfig())?;
        let client = target.connect().await?;
        Ok(Running { child, target, client })
    }
}

/// A program for which writes beyond a size fail instead of ending it.
fn limited(program: &Path, bytes: u64) -> Command {
    let mut command = Command::new("bash");
    let script = "trap '' XFSZ; ulimit -S -f \"$1\"; shift; exec \"$@\"";
    command
        .arg("-c")
        .arg(script)
        .arg("limited")
        .arg((bytes / 1024).to_string())
        .arg(program);
    command
}

/// A box that is ready.
pub struct Running {
    child: Child,
    /// Where it is.
    pub target: Target,
    /// A connection with every right.
    pub client: Connection,
}

impl Running {
    /// Ends it without a warning, and waits until it is gone.
    ///
    /// # Errors
    /// It was gone already: then it fell by itself, which it must not.
    pub async fn kill(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the box had ended by itself: {status}");
        }
        self.child.kill().await?;
        Ok(())
    }
}

//! `aplomb` processes of the test, with their output in files. Killed on drop.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::{Instant, sleep};

/// Time limit for start and exit. The promise for exit is two seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts `aplomb` with `args`; its output goes to files in `dir`, appended after a restart.
    pub(crate) fn aplomb(dir: &Path, name: &str, args: &[&str]) -> Result<Self> {
        let out = dir.join(format!("{name}.out"));
        let log = dir.join(format!("{name}.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_aplomb"))
            .args(args)
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::options().create(true).append(true).open(&log)?)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let name = name.to_owned();
        Ok(Self { name, child, out, log })
    }

    /// Its log, including earlier runs.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The address that it prints when it is ready.
    pub(crate) async fn wait_ready(&mut self) -> Result<String> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            let said = fs::read_to_string(&self.out)?;
            if let Some(address) = said.lines().find_map(|line| line.strip_prefix("ready ")) {
                return Ok(address.to_owned());
            }
            ensure!(self.child.try_wait()?.is_none(), "{} ended: {}", self.name, self.log());
            sleep(Duration::from_millis(20)).await;
        }
        bail!("{} did not become ready: {}", self.name, self.log())
    }

    /// Sends SIGTERM and returns the time to exit; anything but a clean exit is an error.
    pub(crate) async fn terminate(&mut self) -> Result<Duration> {
        let (began, id) = (Instant::now(), self.child.id().to_string());
        let asked = Command::new("kill").args(["-TERM", &id]).status()?;
        ensure!(asked.success(), "kill -TERM {}: {asked}", self.name);
        let status = self.wait_exit(began).await?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(began.elapsed())
    }

    async fn wait_exit(&mut self, began: Instant) -> Result<ExitStatus> {
        while began.elapsed() < TIMEOUT {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            sleep(Duration::from_millis(5)).await;
        }
        bail!("{} has not exited within {TIMEOUT:?}", self.name)
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

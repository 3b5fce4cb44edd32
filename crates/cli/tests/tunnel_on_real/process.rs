//! `aplomb` processes of the test, with their output in files. Killed on drop.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts `aplomb` with `args`; its output goes to files in `dir`.
    pub(crate) fn aplomb(dir: &Path, name: &str, args: &[String]) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aplomb"));
        Self::start(dir, name, command.args(args))
    }

    /// The same with another `/etc/hosts`, so that names lead where the test needs them.
    pub(crate) fn with_hosts(dir: &Path, name: &str, hosts: &Path, args: &[String]) -> Result<Self> {
        let script = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).arg(hosts);
        Self::start(dir, name, command.arg(env!("CARGO_BIN_EXE_aplomb")).args(args))
    }

    fn start(dir: &Path, name: &str, command: &mut Command) -> Result<Self> {
        let out = dir.join(format!("{name}.out"));
        let log = dir.join(format!("{name}.log"));
        let child = command
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::options().create(true).append(true).open(&log)?)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            out,
            log,
        })
    }

    /// Its log, including earlier runs.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its standard output.
    pub(crate) fn stdout_text(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Sends this signal.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status()?;
        ensure!(status.success(), "kill {signal} {}: {status}", self.name);
        Ok(())
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        self.signal("-TERM")?;
        self.wait_exit()
    }

    /// Waits for the exit of a process that got a signal.
    pub(crate) fn wait_exit(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Resets the peak of its memory, so that [`Process::peak`] measures from now on.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?)
    }

    /// The peak of its memory since then, in MiB.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib.context("no VmHWM")?.parse::<u64>()? / 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

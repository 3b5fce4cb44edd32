//! `aplomb` processes beside the test, with their output in files. Dropping one ends it.

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
    /// Starts `aplomb` with `args`; what it prints goes to files in `dir`.
    pub(crate) fn aplomb(dir: &Path, name: &str, args: &[String]) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aplomb"));
        Self::start(dir, name, command.args(args))
    }

    /// The same where `/etc/hosts` is another file, so that names lead where a test wants them to.
    pub(crate) fn with_hosts(
        dir: &Path,
        name: &str,
        hosts: &Path,
        args: &[String],
    ) -> Result<Self> {
        let script = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).arg(hosts);
        Self::start(
            dir,
            name,
            command.arg(env!("CARGO_BIN_EXE_aplomb")).args(args),
        )
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

    /// What it has logged, over all of its lives.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// What it has printed.
    pub(crate) fn stdout_text(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Asks it to end with this signal.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status()?;
        ensure!(status.success(), "kill {signal} {}: {status}", self.name);
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        self.signal("-TERM")?;
        self.wait_exit()
    }

    /// Waits until one that was asked to end has.
    pub(crate) fn wait_exit(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }

    /// Ends it without asking.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Forgets the most memory it ever held, so that [`Process::peak`] tells of what comes.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        Ok(fs::write(
            format!("/proc/{}/clear_refs", self.child.id()),
            "5",
        )?)
    }

    /// The most memory it held since, in MiB.
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

//! Processes of a test, with their output in files. Killed on drop.
#![allow(dead_code)] // each test uses what it needs

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// The log levels of operators.
const LEVELS: &str = "info,aplomb=debug,aplomb_egress_operator=debug,aplomb_coder_operator=debug";

pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `aplomb` with `args`; what it prints goes to files in `dir`.
    pub(crate) fn aplomb(dir: &Path, name: &str, args: &[&str]) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_aplomb"))
            .args(args)
            .env("RUST_LOG", LEVELS)
            .stdin(Stdio::null())
            .stdout(File::create(dir.join(format!("{name}.out")))?)
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self { child, log })
    }

    /// Its log.
    pub(crate) fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        self.child.wait()?;
        Ok(())
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

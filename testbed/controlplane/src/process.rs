//! A child process that cannot outlive us, however we end.
//!
//! A small shell stands between: it holds the reading end of a pipe whose writing end only we
//! have. When we drop it, or die in any way, the shell reads end-of-file and kills the program.
//! That needs no signal handling in this process and no unsafe code.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// Runs "$@"; ends it when standard input ends; exits with its code.
const SUPERVISE: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{ read -r _ <&3; kill -KILL "$program"; } 2>/dev/null &
guard=$!
exec 3<&-
wait "$program"
code=$?
kill "$guard" 2>/dev/null
exit "$code"
"#;

/// Removes "$1" when standard input ends; by then the programs that write there have been killed.
const SWEEP: &str = r#"read -r _; sleep 1; rm -rf -- "$1""#;

/// Removes a folder if this process ends without doing it: statics are not dropped at the end of a test program.
#[derive(Debug)]
pub(crate) struct Sweeper(Child);

impl Sweeper {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SWEEP, "sweep"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting a shell")?;
        Ok(Self(shell))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        // The folder is removed by the one that drops this.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A running program with its log.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    shell: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with both output streams in `log`.
    pub(crate) fn start(name: &'static str, program: &Path, args: &[String], log: PathBuf) -> Result<Self> {
        let out = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let shell = Command::new("/bin/sh")
            .args(["-c", SUPERVISE, "supervise"])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self { name, shell, log })
    }

    /// The shell's id; the program is its child.
    pub(crate) fn id(&self) -> u32 {
        self.shell.id()
    }

    /// The exit status, if the program has ended by itself.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.shell.try_wait().ok().flatten()
    }

    /// What a person needs to see when it did not work.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n  ");
        format!("the end of the log of {}:\n  {tail}", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Cannot fail for a child nobody else waits for; and there is nobody left to tell.
        let _ended = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(args: &[&str]) -> (Process, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let log = dir.path().join("log");
        let process = Process::start("sh", Path::new("/bin/sh"), &args, log).expect("sh starts");
        (process, dir)
    }

    fn wait_for(path: &Path) -> String {
        loop {
            match fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn dropping_ends_the_program() {
        let (process, dir) = started(&["-c", "echo $$; exec sleep 1000"]);
        let pid = wait_for(&dir.path().join("log"));
        assert!(Path::new("/proc").join(&pid).exists());
        drop(process);
        assert!(
            !Path::new("/proc").join(&pid).exists(),
            "the program outlived its handle"
        );
    }

    #[test]
    fn a_folder_is_removed_when_its_process_ends_without_doing_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let folder = dir.path().join("left behind");
        fs::create_dir(&folder).expect("a folder");
        let mut sweeper = Sweeper::start(&folder).expect("sh starts");
        // What the end of the process does.
        drop(sweeper.0.stdin.take());
        sweeper.0.wait().expect("it ends");
        assert!(!folder.exists());
    }

    #[test]
    fn the_exit_code_comes_through() {
        let (mut process, _dir) = started(&["-c", "exit 7"]);
        let status = loop {
            match process.exited() {
                Some(status) => break status,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(status.code(), Some(7));
    }
}

//! `aplomb box` as a process, with `aplomb` and kubectl for it. Killed on drop.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use aplomb_controlplane::{Binaries, Program};

const APLOMB: &str = env!("CARGO_BIN_EXE_aplomb");

pub(crate) struct Boxed {
    process: Child,
    dir: tempfile::TempDir,
}

impl Boxed {
    /// A ready box with these additional flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut process = Command::new(APLOMB)
            .args(["box", "--kubeconfig"])
            .arg(dir.path().join("kubeconfig"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the box starts");
        let said = process.stdout.take().expect("its output");
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready "), "{line}");
        Self { process, dir }
    }

    /// A box with all our kinds.
    pub(crate) fn with_kinds(flags: &[&str]) -> Self {
        let server = Self::start(flags);
        let output = server.aplomb(&["crds", "--apply"]);
        assert!(output.status.success(), "{}", err(&output));
        server
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir().join("kubeconfig")
    }

    /// The output of `aplomb`, with the administrator's kubeconfig in its environment.
    pub(crate) fn aplomb(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// The same, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(APLOMB);
        command
            .args(args)
            .env("APLOMB_KUBECONFIG", self.kubeconfig())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// The output of kubectl with `input` on standard input.
    pub(crate) fn kubectl(&self, args: &[&str], input: &str) -> String {
        let programs = Binaries::find_or_build().expect("a kubectl");
        let mut child = Command::new(programs.path(Program::Kubectl))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("an input");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{args:?}: {}", err(&output));
        out(&output)
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Whether there is a kubectl, or Go to build one. Without them, tests that need it print so and are skipped; in CI
/// that is an error.
pub(crate) fn has_kubectl() -> bool {
    Binaries::available().expect("the programs, or Go to build them with")
}

/// Standard output.
pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

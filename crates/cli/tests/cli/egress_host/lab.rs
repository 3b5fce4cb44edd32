//! A network namespace for one test, and the binary in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const NAMESPACE_VARIABLE: &str = "APLOMB_TEST_IN_NAMESPACE";
const LISTEN: &str = "127.0.0.1:9963";
/// Time limit for each step; steps are awaited, not slept.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs `body` in a network namespace of its own: this program again, with only `test` of this module.
pub(crate) fn in_namespace(test: &str, body: impl FnOnce()) {
    if std::env::var_os(NAMESPACE_VARIABLE).is_some() {
        return body();
    }
    let Some(flags) = skip_reason() else {
        let why = "`unshare` cannot make a network namespace, or `ip` is missing";
        return report_skipped(test, why);
    };
    let own = std::env::current_exe().expect("a test binary");
    let path = format!("egress_host::{test}");
    let ended = Command::new("unshare")
        .arg(flags)
        .arg(own)
        .args(["--exact", &path, "--nocapture", "--test-threads", "1"])
        .env(NAMESPACE_VARIABLE, "1")
        .output()
        .expect("unshare runs");
    // Printed only on failure: the inner harness prints its own count, and `make test` counts such lines.
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // A path that names no test succeeds too.
    let passed = ended.status.success() && said.contains("1 passed");
    assert!(passed, "{test}, in its namespace:\n{said}");
}

/// Prints that a test cannot run here; a failure in CI.
fn report_skipped(test: &str, why: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{why}");
    // Not with a macro: the harness captures the output of a test that passes.
    let loud = format!("!! {why}: NOTHING of egress-host was tried by {test}\n");
    std::io::stderr().write_all(loud.as_bytes()).expect("said");
}

/// As `inside`, for tests that also need `setpriv`.
pub(crate) fn in_namespace_with_setpriv(test: &str, body: impl FnOnce()) {
    let version = Command::new("setpriv").arg("--version").output();
    if !version.is_ok_and(|it| it.status.success()) {
        return report_skipped(test, "there is no `setpriv` (of util-linux)");
    }
    in_namespace(test, body);
}

/// How a namespace can be created here, if at all.
fn skip_reason() -> Option<&'static str> {
    let works = |flags: &&str| {
        let link = [
            "ip", "link", "add", "name", "near", "type", "veth", "peer", "name", "far",
        ];
        let mut trial = Command::new("unshare");
        trial.arg(*flags).args(link);
        let trial = trial.stdout(Stdio::null()).stderr(Stdio::null()).status();
        trial.is_ok_and(|ended| ended.success())
    };
    ["-rn", "-n"].into_iter().find(works)
}

/// Runs `ip` with these arguments and returns what it prints.
pub(crate) fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.expect("ip runs");
    let said = String::from_utf8_lossy(&output.stderr);
    // `ip` fails for an empty table as if it did not exist.
    let empty = said.contains("FIB table does not exist");
    assert!(output.status.success() || empty, "ip {arguments}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// `aplomb egress-host`, running.
pub(crate) struct Host {
    child: Child,
    lines: Receiver<String>,
}

impl Host {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(&[], arguments)
    }

    /// Starts it through another program.
    pub(crate) fn start_with(by: &[&str], arguments: &[&str]) -> Self {
        let mut words = by.to_vec();
        words.extend([env!("CARGO_BIN_EXE_aplomb"), "egress-host"]);
        words.extend(arguments);
        Self::run(&words)
    }

    /// Starts a program and reads its output.
    pub(crate) fn run(words: &[&str]) -> Self {
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (send, lines) = channel();
        forward_lines(child.stdout.take().expect("piped"), send.clone());
        forward_lines(child.stderr.take().expect("piped"), send);
        Self { child, lines }
    }

    /// Waits for a line that contains `text`.
    pub(crate) fn wait_for(&self, text: &str) {
        loop {
            let line = self.lines.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?}"));
            if line.contains(text) {
                return;
            }
        }
    }

    /// Status and body of one of its endpoints.
    #[allow(clippy::unused_self, reason = "it must be running")]
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(LISTEN).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status line");
        (status.parse().expect("a status"), body.to_owned())
    }

    /// Its effective capabilities, from the kernel.
    pub(crate) fn capabilities(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        u64::from_str_radix(effective.expect("a set").trim(), 16).expect("a number")
    }

    /// Sends a signal and waits for the exit code; `None` if the signal ended it.
    pub(crate) fn stop(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.is_ok_and(|sent| sent.success()));
        self.child.wait().expect("it ends").code()
    }

    /// Waits for the exit: its output and its exit code.
    pub(crate) fn wait_exit(mut self) -> (String, Option<i32>) {
        let mut said = String::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            said.push_str(&line);
            said.push('\n');
        }
        (said, self.child.wait().expect("it ends").code())
    }
}

fn forward_lines(stream: impl Read + Send + 'static, send: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            eprintln!("    {line}");
            // The test may have stopped reading; the program must not block on its output.
            let _ = send.send(line);
        }
    });
}

impl Drop for Host {
    fn drop(&mut self) {
        // A failed test must not leave it behind; a process that has ended is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

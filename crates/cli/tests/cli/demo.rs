//! `aplomb demo`, the real binary: the printed commands work, and nothing is left behind. The test `agree` plays
//! all five stories and checks the page meanwhile.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use aplomb_api::tunnel::HttpProxy;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::Value;

const APLOMB: &str = env!("CARGO_BIN_EXE_aplomb");

/// A demo with a temporary directory that must be empty at the end.
struct Demo {
    process: Child,
    lines: BufReader<ChildStdout>,
    dir: tempfile::TempDir,
}

impl Demo {
    fn start(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut process = command(dir.path())
            .arg("--json")
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("its output"));
        Self { process, lines, dir }
    }

    /// The next line of this kind; other lines before it are skipped.
    fn next(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("a line");
            assert!(read > 0, "it ended before a line of kind {kind:?}");
            let line: Value = serde_json::from_str(&line).expect("each line is JSON");
            if line["kind"] == kind {
                return line;
            }
        }
    }

    /// Sends a signal, and returns the exit code.
    fn end(mut self, signal: &str) -> Option<i32> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill").success());
        self.exit_code()
    }

    /// Waits for the end. No file may be left then.
    fn exit_code(&mut self) -> Option<i32> {
        let code = self.process.wait().expect("it ends").code();
        assert_eq!(list_files(self.dir.path()), Vec::<PathBuf>::new());
        code
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(APLOMB);
    command.arg("demo").env("TMPDIR", dir).stdin(Stdio::null());
    command
}

fn list_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn text<'a>(line: &'a Value, member: &str) -> &'a str {
    line[member].as_str().expect(member)
}

/// The response to a request that uses the address alone.
fn fetch_page(url: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

async fn names(kubeconfig: &str) -> Vec<String> {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(read, &options).await;
    let client = Client::try_from(config.expect("a context")).expect("a client");
    let proxies: Api<HttpProxy> = Api::default_namespaced(client);
    let all = proxies.list(&Default::default()).await.expect("a list");
    all.iter().map(ResourceExt::name_any).collect()
}

fn run_failing(flags: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let Output { status, stderr, .. } = command(dir.path()).args(flags).output().expect("it runs");
    let said = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(list_files(dir.path()), Vec::<PathBuf>::new());
    said
}

#[tokio::test]
async fn printed_urls_work_and_ctrl_c_leaves_nothing() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let mut demo = Demo::start(&["--script", "tunnel", "--keep"]);
    let ready = demo.next("ready");
    let (url, page) = (text(&ready, "url"), text(&ready, "page"));
    let answer = fetch_page(url);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("hello from your laptop\n"), "{answer}");
    assert!(fetch_page(page).contains("data-name=\"hello\""));
    let result = demo.next("result");
    assert_eq!(result["result"], "PASS", "{result}");
    assert_eq!(demo.next("results")["pass"], true);
    let made = names(text(&ready, "kubeconfig")).await;
    assert_eq!(made, ["hello", "shop"]);
    assert_eq!(demo.end("-INT"), Some(0));
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    assert!(TcpStream::connect(address).is_err(), "the port is still open");
}

#[test]
fn a_signal_in_the_middle_of_a_story_leaves_nothing() {
    let mut demo = Demo::start(&["--script", "throttle"]);
    demo.next("event");
    assert_eq!(demo.end("-TERM"), Some(130));
}

#[test]
fn without_a_terminal_it_plays_once_in_short_lines_and_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("demo.kubeconfig");
    let flags = ["--script", "heartbeats", "--script", "conflicts", "--kubeconfig"];
    let played = command(dir.path())
        .args(flags)
        .arg(&kubeconfig)
        .output()
        .expect("it runs");
    let said = String::from_utf8(played.stdout).expect("text");
    assert_eq!(played.status.code(), Some(0), "{said}");
    assert_eq!(played.stderr, b"", "no progress without a terminal");
    let results = said.lines().filter(|line| line.starts_with("PASS "));
    assert_eq!(results.count(), 2, "{said}");
    assert!(said.contains(&format!("export KUBECONFIG={}", kubeconfig.display())));
    let long = said.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None);
    assert!(!said.contains('\x1b'), "no color without a terminal");
    assert_eq!(list_files(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn unusable_options_fail_with_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let said = run_failing(&["--page", &taken]);
    assert!(said.contains("--page") && said.contains(&taken), "{said}");
    let dir = tempfile::tempdir().expect("a directory");
    let precious = dir.path().join("precious");
    std::fs::write(&precious, "mine").expect("a file");
    let said = run_failing(&["--kubeconfig", precious.to_str().expect("text")]);
    assert!(said.contains("precious"), "{said}");
    assert_eq!(std::fs::read_to_string(&precious).expect("it is there"), "mine");
    let said = run_failing(&["--speed", "0"]);
    assert!(said.contains("--speed 0"), "{said}");
}

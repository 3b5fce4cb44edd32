//! Every command with every common failure: one line with the problem and the fix, and exit code 2.

mod kubeconfigs;

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::boxed::{Boxed, err};

const APLOMB: &str = env!("CARGO_BIN_EXE_aplomb");

/// Every command that uses a cluster, with typical arguments.
const CLUSTER_COMMANDS: [&[&str]; 12] = [
    &["get"],
    &["get", "httpproxies"],
    &["get", "httpproxies", "web", "-o", "json"],
    &["get", "stableegresses", "--watch"],
    &["status"],
    &["trace", "httpproxy/web"],
    &["tunnel", "list"],
    &["tunnel", "status", "web"],
    &["run", "tunnel", "coder", "egress"],
    &["gateway", "--listen", "127.0.0.1:0"],
    &["connect", "18099", "--name", "web"],
    &["crds", "--apply"],
];

/// Runs `aplomb` without the environment's cluster.
fn aplomb(home: &Boxed, words: &[&str], kubeconfig: Option<&str>) -> Output {
    let mut command = Command::new(APLOMB);
    command
        .args(words)
        .env_remove("KUBECONFIG")
        .env("HOME", home.dir())
        .env("XDG_STATE_HOME", home.dir())
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null());
    if let Some(kubeconfig) = kubeconfig {
        command.env("APLOMB_KUBECONFIG", kubeconfig);
    }
    command.output().expect("it runs")
}

/// One line, with the problem and the fix.
fn check_error(output: &Output, words: &[&str], what: &str, fix: &str) {
    let said = err(output);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("aplomb: "), "{words:?}: {said}");
    let lower = last.to_lowercase();
    assert!(
        lower.contains(&what.to_lowercase()),
        "{words:?} does not contain {what:?}: {said}"
    );
    assert!(
        lower.contains(&fix.to_lowercase()),
        "{words:?} does not contain {fix:?}: {said}"
    );
    let about = said.lines().filter(|line| line.starts_with("aplomb: "));
    assert_eq!(about.count(), 1, "{words:?}: {said}");
    for noise in ["panicked", "backtrace", "Error {", "ApiError"] {
        assert!(!said.contains(noise), "{words:?}: {said}");
    }
}

fn run_every_command(home: &Boxed, kubeconfig: Option<&str>, what: &str, fix: &str) {
    for words in CLUSTER_COMMANDS {
        check_error(&aplomb(home, words, kubeconfig), words, what, fix);
    }
}

#[test]
fn an_unusable_kubeconfig() {
    let home = Boxed::start(&[]);
    run_every_command(
        &home,
        Some("/no/such/kubeconfig"),
        "not a readable kubeconfig",
        "kubectl config view",
    );
    let garbage = kubeconfigs::write_kubeconfig(&home, "garbage", ": not [ yaml\n\tat all");
    run_every_command(
        &home,
        Some(&garbage),
        "not a readable kubeconfig",
        "kubectl config view",
    );
    let nowhere = kubeconfigs::edited(&home, "nowhere", |it| it["current-context"] = "gone".into());
    run_every_command(&home, Some(&nowhere), "context", "--context");
    run_every_command(&home, None, "no cluster", "--kubeconfig FILE");
    let kubeconfig = home.kubeconfig();
    for words in [
        &["get", "--context", "gone"][..],
        &["status", "--context", "gone"],
        &["trace", "hp/web", "--context", "gone"],
    ] {
        check_error(&aplomb(&home, words, kubeconfig.to_str()), words, "gone", "--context");
    }
}

#[test]
fn an_unreachable_server() {
    let home = Boxed::start(&[]);
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("https://{}", closed.local_addr().expect("an address"));
    drop(closed);
    let refused = kubeconfigs::with_server(&home, "refused", &address);
    run_every_command(&home, Some(&refused), "cannot be reached", "is running");
}

/// A server that accepts connections and never responds: commands give up in time.
#[test]
fn an_unresponsive_server() {
    let home = Boxed::start(&[]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    let kubeconfig = kubeconfigs::with_server(&home, "silent", &address);
    let asked: Vec<_> = CLUSTER_COMMANDS
        .iter()
        .map(|words| {
            let began = Instant::now();
            let child = Command::new(APLOMB)
                .args(*words)
                .env("HOME", home.dir())
                .env("APLOMB_KUBECONFIG", &kubeconfig)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it runs");
            (words, began, child)
        })
        .collect();
    for (words, began, child) in asked {
        let output = child.wait_with_output().expect("it ends");
        check_error(&output, words, "did not respond within 10 s", "is running");
        println!("{words:?} ended after {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(110), "{words:?}");
    }
    drop(silent);
}

#[test]
fn missing_kinds() {
    let home = Boxed::start(&[]);
    let kubeconfig = home.kubeconfig();
    for words in CLUSTER_COMMANDS.into_iter().filter(|words| words[0] != "crds") {
        let output = aplomb(&home, words, kubeconfig.to_str());
        check_error(&output, words, "", "aplomb crds --apply");
    }
}

#[test]
fn an_unauthorized_user() {
    let home = Boxed::with_kinds(&["--rbac"]);
    let nobody = kubeconfigs::with_unknown_user(&home);
    for words in CLUSTER_COMMANDS {
        let output = aplomb(&home, words, Some(&nobody));
        check_error(&output, words, "cannot", "");
    }
    let stranger = kubeconfigs::with_unauthorized_user(&home);
    run_every_command(
        &home,
        Some(&stranger),
        "token is wrong or has expired",
        "new kubeconfig",
    );
}

#[test]
fn an_address_in_use() {
    let home = Boxed::with_kinds(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let token = kubeconfigs::write_kubeconfig(&home, "token", &"7".repeat(64));
    let (file, kubeconfig) = (home.dir().join("box2"), home.kubeconfig());
    let file = file.to_str().expect("a path");
    for (words, flag) in [
        (&["run", "egress", "--admin", &address][..], "--admin"),
        (&["gateway", "--listen", &address], "--listen"),
        (&["gateway", "--listen", "127.0.0.1:0", "--admin", &address], "--admin"),
        (&["box", "--listen", &address, "--kubeconfig", file], "--listen"),
        (&["sim", "coderd", "--listen", &address], "--listen"),
        (
            &["sim", "hetzner", "--token-file", &token, "--listen", &address],
            "--listen",
        ),
    ] {
        let output = aplomb(&home, words, kubeconfig.to_str());
        check_error(&output, words, "in use", flag);
    }
}

#[test]
fn an_unreadable_file() {
    let home = Boxed::with_kinds(&[]);
    let kubeconfig = home.kubeconfig();
    let directory = home.dir().to_str().expect("a path").to_owned();
    let garbage = kubeconfigs::write_kubeconfig(&home, "garbage.key", "no key");
    for key in [&directory, &garbage] {
        for words in [
            &["gateway", "--listen", "127.0.0.1:0", "--key-file", key][..],
            &["connect", "18099", "--name", "web", "--key-file", key],
        ] {
            let output = aplomb(&home, words, kubeconfig.to_str());
            check_error(&output, words, key, "key");
        }
    }
    for words in [
        &["run", "egress", "--hetzner-token-file", "/no/such/file"][..],
        &["gateway", "--origin-ca", "/no/such/file"],
        &["connect", "18099", "--origin-ca", "/no/such/file"],
        &["sim", "hetzner", "--token-file", "/no/such/file"],
        &["sim", "coderd", "--token-file", "/no/such/file"],
    ] {
        let output = aplomb(&home, words, kubeconfig.to_str());
        check_error(&output, words, "/no/such/file", "");
    }
}

#[test]
fn unknown_words() {
    let home = Boxed::with_kinds(&[]);
    let kubeconfig = home.kubeconfig();
    for (words, what, fix) in [
        (&["get", "pods"][..], "pods", "httpproxies"),
        (&["trace", "pods/web"], "pods", "httpproxies"),
        (&["trace", "web"], "web", "KIND/NAME"),
        (&["get", "hp", "-l", "a=("], "selector", ""),
        (&["get", "--watch"], "one kind", "httpproxies"),
        (&["get", "hp", "web", "-l", "a=b"], "--selector", "one of them"),
        (&["get", "hp", "web", "-A"], "--all-namespaces", "leave out"),
        (&["status", "--admin", "nowhere"], "--admin", "http://"),
        (&["run", "egress", "--namespace", "A_B"], "--namespace", "aplomb-system"),
    ] {
        let output = aplomb(&home, words, kubeconfig.to_str());
        check_error(&output, words, what, fix);
    }
}

#[test]
fn an_unknown_flag() {
    let home = Boxed::start(&[]);
    let commands = [
        "box",
        "completion",
        "connect",
        "crds",
        "demo",
        "egress-host",
        "gateway",
        "get",
        "run",
        "sim",
        "status",
        "trace",
        "tunnel",
        "version",
    ];
    for command in commands {
        let output = aplomb(&home, &[command, "--no-such-flag"], None);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let said = err(&output);
        assert!(said.contains("--no-such-flag"), "{command}: {said}");
        assert!(said.starts_with("aplomb: "), "{command}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{command}: {said}");
    }
}

//! docs/cli.md shows the help of each command. Update the page with
//! `UPDATE_HELP=1 cargo test -p aplomb-cli --test cli help::`.

use std::path::{Path, PathBuf};
use std::process::Command;

const APLOMB: &str = env!("CARGO_BIN_EXE_aplomb");
const HELP_MARKER: &str = "<!-- help: ";

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md")
}

/// The help of a command, independent of the environment.
fn help(words: &[&str]) -> String {
    let output = Command::new(APLOMB)
        .args(words)
        .arg("-h")
        .env_clear()
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{words:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.trim_end().lines().map(str::trim_end);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The page with the current help texts.
fn with_help(text: &str) -> String {
    let mut page = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        page.push_str(line);
        page.push('\n');
        let Some(command) = line.strip_prefix(HELP_MARKER).and_then(|it| it.strip_suffix(" -->")) else {
            continue;
        };
        if lines.peek() == Some(&"```text") {
            lines.next();
            while lines.next().is_some_and(|line| line != "```") {}
        }
        page.push_str(&format!("```text\n{}```\n", help(&[command])));
    }
    page
}

#[test]
fn the_page_has_the_help_of_every_command() {
    let text = std::fs::read_to_string(page_path()).expect("the page");
    let now = with_help(&text);
    if std::env::var_os("UPDATE_HELP").is_some() {
        std::fs::write(page_path(), &now).expect("the page");
    } else {
        assert!(
            text == now,
            "update it with UPDATE_HELP=1 cargo test -p aplomb-cli --test cli help::"
        );
    }
    let all = help(&[]);
    let commands = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    for name in commands.filter_map(|line| line.split_whitespace().next()) {
        let shown = text.contains(&format!("{HELP_MARKER}{name} -->"));
        assert!(shown || name == "help", "docs/cli.md does not mention {name}");
    }
}

#[test]
fn plugin_usage_names_kubectl() {
    let dir = tempfile::tempdir().expect("a directory");
    let plugin = dir.path().join("kubectl-aplomb");
    std::os::unix::fs::symlink(APLOMB, &plugin).expect("a link");
    let said = |words: &[&str]| {
        let output = Command::new(&plugin).args(words).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(
        said(&["get", "--help"]).contains("Usage: kubectl aplomb get"),
        "{}",
        said(&["get", "--help"])
    );
    assert!(help(&["get"]).contains("Usage: aplomb get"));
    let offered = said(&["__complete", "--", "get", "httpp"]);
    assert_eq!(offered, "httpproxies\n:4\n");
    assert!(said(&["completion", "--kubectl"]).starts_with("#!/bin/sh\n"));
    let version: serde_json::Value = serde_json::from_str(&said(&["version", "-o", "json"])).expect("JSON");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

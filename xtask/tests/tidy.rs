//! How files are kept: every one says what it is for, and none outgrows its room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MOST_LINES: usize = 500;
/// Made by `make gateway-api`, which is where their length is decided.
const GENERATED: &str = "crates/api/src/gateway_api/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the checkout")
}

fn tracked(pattern: &str) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            pattern,
        ])
        .current_dir(root())
        .output()
        .expect("git runs");
    let listing = String::from_utf8(output.stdout).expect("paths are UTF-8");
    listing
        .lines()
        .map(|line| root().join(line))
        .filter(|path| path.exists())
        .collect()
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let bare: Vec<_> = tracked("*.rs")
        .into_iter()
        .filter(|path| {
            !fs::read_to_string(path)
                .expect("readable")
                .starts_with("//!")
        })
        .collect();
    assert!(bare.is_empty(), "no //! head: {bare:#?}");
}

#[test]
fn no_source_file_outgrows_its_room() {
    let long: Vec<_> = tracked("*.rs")
        .into_iter()
        .filter(|path| !path.to_string_lossy().contains(GENERATED))
        .map(|path| {
            (
                fs::read_to_string(&path).expect("readable").lines().count(),
                path,
            )
        })
        .filter(|(lines, _)| *lines > MOST_LINES)
        .collect();
    assert!(long.is_empty(), "over {MOST_LINES} lines: {long:#?}");
}

#[test]
fn every_crate_but_vtime_forbids_unsafe_code() {
    for path in tracked("*/src/lib.rs")
        .into_iter()
        .chain(tracked("*/src/main.rs"))
    {
        if path.to_string_lossy().contains("testbed/virtual-time/") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable");
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "{} does not",
            path.display()
        );
    }
}

#[test]
fn the_words_of_make_stay() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("readable");
    for word in [
        "help",
        "build",
        "test",
        "demo",
        "proof",
        "conformance",
        "differential",
        "seeds",
        "runtime",
        "egress",
        "tunnel",
        "bench-tunnel",
        "alerts",
        "gateway-api",
        "bench",
        "controlplane",
        "lint",
        "advisories",
    ] {
        assert!(
            makefile.contains(&format!("\n{word}:")),
            "make {word} is gone"
        );
    }
}

#[test]
fn the_readme_is_a_page_or_two() {
    let lines = fs::read_to_string(root().join("README.md"))
        .expect("readable")
        .lines()
        .count();
    assert!((80..=180).contains(&lines), "README.md has {lines} lines");
}

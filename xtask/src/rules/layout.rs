//! How files are kept: where modules and tests are, and how long a file is.

use super::{Violation, matches, regex};
use crate::source::{SourceFile, line_of, test_items};

const MOST_LINES: usize = 600;
const MOST_INLINE: usize = 120;
const FEWEST_LINES: usize = 60;
/// Files that are short for a reason: a path, a tab and the reason on each line.
const SMALL: &str = "xtask/small-files.txt";
/// Made by `make gateway-api`, which is where their length is decided.
const GENERATED: &str = "crates/api/src/gateway_api/";

fn rust(files: &[SourceFile]) -> impl Iterator<Item = &SourceFile> {
    files.iter().filter(|file| file.is_rust())
}

/// Tests have a folder each; there `mod.rs` is what Cargo needs.
pub(super) fn mod_rs(files: &[SourceFile]) -> Vec<Violation> {
    let named = rust(files).filter(|file| file.name() == "mod.rs" && file.path.contains("/src/"));
    named
        .map(|file| Violation::new(file, 1, "move it beside its folder, as `x.rs`"))
        .collect()
}

pub(super) fn test_files(files: &[SourceFile]) -> Vec<Violation> {
    let named = rust(files).filter(|file| file.name().ends_with("_tests.rs"));
    named
        .map(|file| Violation::new(file, 1, "move it to `x/tests.rs`"))
        .collect()
}

pub(super) fn path_attributes(files: &[SourceFile]) -> Vec<Violation> {
    let attribute = regex(r#"(?m)^\s*#\[path\s*=\s*"([^"]*)""#);
    let mut found = Vec::new();
    for file in rust(files).filter(|file| !file.path.contains("/examples/")) {
        for path in attribute.captures_iter(&file.uncommented) {
            if !path[1].contains("examples/") {
                let line = path.get(1).map_or(1, |it| line_of(&file.text, it.start()));
                found.push(Violation::new(file, line, "put the module where Rust looks for it"));
            }
        }
    }
    found
}

pub(super) fn inline_tests(files: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in rust(files).filter(|file| !file.is_test) {
        for (start, end) in test_items(&file.code) {
            let lines = file.code[start..end].lines().count();
            if lines > MOST_INLINE {
                let todo = format!("{lines} lines of tests: move them to `x/tests.rs`");
                found.push(Violation::new(file, line_of(&file.code, start), todo));
            }
        }
    }
    found
}

pub(super) fn file_length(files: &[SourceFile]) -> Vec<Violation> {
    let ours = rust(files).filter(|file| !file.is_generated && !file.path.starts_with(GENERATED));
    let long = ours
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES);
    long.map(|(file, lines)| Violation::new(file, MOST_LINES, format!("{lines} lines: divide it")))
        .collect()
}

/// The root of a crate may be short: it lists modules.
pub(super) fn small_files(files: &[SourceFile]) -> Vec<Violation> {
    let list = files.iter().find(|file| file.path == SMALL);
    let listed = || list.into_iter().flat_map(|list| list.text.lines().zip(1..));
    let has_reason = |line: &str, path: &str| {
        line.split_once('\t')
            .is_some_and(|(it, why)| it == path && !why.is_empty())
    };
    let ours = files.iter().filter(|file| {
        let is_source = file.path.contains("/src/") && !file.is_test && !file.is_generated;
        file.is_product() && is_source && file.name() != "lib.rs"
    });
    let sized = ours.map(|file| (file, file.production(&file.text).count()));
    let small: Vec<_> = sized.filter(|(_, lines)| *lines < FEWEST_LINES).collect();
    let reasonless = small
        .iter()
        .filter(|(file, _)| !listed().any(|(line, _)| has_reason(line, &file.path)));
    let mut found: Vec<Violation> = reasonless
        .map(|(file, lines)| Violation::new(file, 1, format!("{lines} lines: merge it, or give a reason in {SMALL}")))
        .collect();
    for (line, at) in listed() {
        if !small.iter().any(|(file, _)| has_reason(line, &file.path)) {
            found.extend(list.map(|list| Violation::new(list, at, format!("not a small file with a reason: {line}"))));
        }
    }
    found
}

pub(super) fn file_heads(files: &[SourceFile]) -> Vec<Violation> {
    let bare = rust(files).filter(|file| !file.text.starts_with("//!"));
    bare.map(|file| Violation::new(file, 1, "begin with `//!` and what the file is for"))
        .collect()
}

/// Every crate but the one that interposes libc.
pub(super) fn forbid_unsafe(files: &[SourceFile]) -> Vec<Violation> {
    let roots = rust(files).filter(|file| {
        ["/src/lib.rs", "/src/main.rs"]
            .iter()
            .any(|end| file.path.ends_with(end))
    });
    let forbid = regex(r"#!\[(forbid\(unsafe_code\))\]");
    roots
        .filter(|file| !file.path.starts_with("testbed/virtual-time/") && matches(file, &file.code, &forbid).is_empty())
        .map(|file| Violation::new(file, 1, "add #![forbid(unsafe_code)]"))
        .collect()
}

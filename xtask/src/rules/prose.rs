//! What people read is plain American English.

use std::sync::LazyLock;

use regex::Regex;

use super::{Violation, regex};
use crate::source::{COMMITS, SourceFile};

/// One pattern on each line.
static BANNED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = include_str!("../banned_words").lines();
    patterns.map(|it| regex(&format!("(?i){it}"))).collect()
});
/// Texts of others, and what these checks write.
const APART: [&str; 5] = [
    "LICENSE",
    "CODE_OF_CONDUCT.md",
    "xtask/golden/",
    "xtask/baseline.txt",
    "testbed/",
];

/// Each banned word of a line, as it is written there.
fn banned(line: &str) -> Vec<&str> {
    let bytes = line.as_bytes();
    let joins = |at: Option<&u8>| at.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
    let mut found = Vec::new();
    for pattern in BANNED.iter() {
        for word in pattern.find_iter(line) {
            let alone =
                !joins(word.start().checked_sub(1).and_then(|at| bytes.get(at))) && !joins(bytes.get(word.end()));
            // "it is no." is an answer.
            let before_word =
                bytes.get(word.end()) == Some(&b' ') && bytes.get(word.end() + 1).is_some_and(u8::is_ascii_alphabetic);
            if alone && (before_word || !pattern.as_str().ends_with(" no")) {
                found.push(word.as_str());
            }
        }
    }
    found
}

/// Comments and literals of Rust, Markdown, and comments and descriptions of YAML.
pub(super) fn banned_words(files: &[SourceFile]) -> Vec<Violation> {
    let key = regex(r"^\s*[-\w./]+:");
    let mut found = Vec::new();
    let ours = |file: &&SourceFile| {
        let is_made = file.is_rust() && file.is_generated;
        !is_made && !APART.iter().any(|it| file.path.starts_with(it))
    };
    for file in files.iter().filter(ours) {
        let mut look = |line: usize, text: &str| {
            found.extend(banned(text).into_iter().map(|word| Violation {
                key: file.folder().to_owned(),
                ..Violation::new(file, line, format!("say it without {word:?}"))
            }));
        };
        if file.is_rust() {
            for (line, piece) in &file.prose {
                piece.lines().zip(*line..).for_each(|(text, line)| look(line, text));
            }
            continue;
        }
        if file.text.contains("gateway.networking.k8s.io/bundle-version") || file.path.starts_with('(') {
            continue;
        }
        let is_yaml = [".yaml", ".yml", ".tpl"].iter().any(|end| file.path.ends_with(end));
        let is_said = |line: &str| {
            let said = line.trim_start().starts_with('#') || line.contains("description:") || line.contains(" #");
            said || !key.is_match(line)
        };
        let lines = file.text.lines().zip(1..);
        let lines = lines.filter(|(line, _)| !is_yaml || is_said(line));
        lines.for_each(|(text, line)| look(line, text));
    }
    found
}

/// The subject of each commit begins with its area.
pub(super) fn commit_subjects(files: &[SourceFile]) -> Vec<Violation> {
    let subject = regex(r"^[0-9a-f]+ [a-z0-9][a-z0-9,/_. -]*: [a-z`]");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path == COMMITS) {
        for (line, at) in file.text.lines().zip(1..) {
            let mut todo: Vec<String> = banned(line)
                .into_iter()
                .map(|word| format!("say it without {word:?}"))
                .collect();
            if !subject.is_match(line) {
                todo.push("begin with the area and an imperative: `runtime: drop the curve`".to_owned());
            }
            found.extend(
                todo.into_iter()
                    .map(|todo| Violation::new(file, at, format!("{todo}: {line}"))),
            );
        }
    }
    found
}

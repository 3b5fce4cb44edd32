//! The rules: each is a function from files to violations.

mod apis;
mod edges;
mod layout;
mod names;
mod prose;

use std::sync::LazyLock;

use regex::Regex;

use crate::source::{SourceFile, line_of};

/// What breaks a rule, and what to do about it.
#[derive(Clone, Debug)]
pub struct Violation {
    pub path: String,
    pub line: usize,
    /// What the baseline counts by: a path, a folder or a name.
    pub key: String,
    pub todo: String,
}

impl Violation {
    fn new(file: &SourceFile, line: usize, todo: impl Into<String>) -> Self {
        Self {
            path: file.path.clone(),
            line,
            key: file.path.clone(),
            todo: todo.into(),
        }
    }
}

/// A rule: its name, the step of the rework that removes what breaks it today, and the check.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub name: &'static str,
    pub step: &'static str,
    pub check: fn(&[SourceFile]) -> Vec<Violation>,
}

const fn rule(name: &'static str, step: &'static str, check: fn(&[SourceFile]) -> Vec<Violation>) -> Rule {
    Rule { name, step, check }
}

pub const RULES: [Rule; 19] = [
    rule("unique-types", "8-9", names::unique_types),
    rule("banned-names", "8-9", names::banned_names),
    rule("as-str", "8-9", names::as_str),
    rule("metric-names", "8", names::metric_names),
    rule("banned-words", "15", prose::banned_words),
    rule("commit-subjects", "15", prose::commit_subjects),
    rule("mod-rs", "2", layout::mod_rs),
    rule("test-files", "2", layout::test_files),
    rule("path-attributes", "2", layout::path_attributes),
    rule("inline-tests", "2", layout::inline_tests),
    rule("file-length", "8-9", layout::file_length),
    rule("small-files", "8-9", layout::small_files),
    rule("file-heads", "2", layout::file_heads),
    rule("forbid-unsafe", "2", layout::forbid_unsafe),
    rule("edges", "5-6", edges::edges),
    rule("std-sync", "7", apis::std_sync),
    rule("kube-params", "10", apis::kube_params),
    rule("spawn", "8", apis::spawn),
    rule("missing-docs", "14", apis::missing_docs),
];

/// A pattern of the source.
fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("it is fixed")
}

/// Each line on which `pattern` matches `part` of a file, tests apart, with its first group.
fn matches<'a>(file: &'a SourceFile, part: &'a str, pattern: &Regex) -> Vec<(usize, &'a str)> {
    let captures = pattern.captures_iter(part);
    let found = captures.filter_map(|captures| captures.get(1));
    let found = found.map(|group| (line_of(part, group.start()), group.as_str()));
    found
        .filter(|(line, _)| !file.is_test && !file.test_lines.contains(line))
        .collect()
}

static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\b(pub\s*(?:\(\s*(?:crate|super|in[^)]*)\s*\)\s*)?)?(?:unsafe\s+)?(?:struct|enum|union|trait|type)\s+(\w+)")
});

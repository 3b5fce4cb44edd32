//! Runs every rule and compares what it finds with the baseline, which can only shrink.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::golden::differences;
use crate::rules::{RULES, Violation};
use crate::source::SourceFile;

pub const BASELINE: &str = "xtask/baseline.txt";

type Key = (String, String);

/// A line of the baseline: how many violations pass, and the step that removes them.
struct Entry {
    count: usize,
    step: String,
    line: usize,
}

fn entries(baseline: &str) -> BTreeMap<Key, Entry> {
    let lines = baseline.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    let read = lines.filter_map(|(text, line)| {
        let [rule, key, count, step] = text.split('\t').collect::<Vec<_>>()[..] else {
            return None;
        };
        let entry = Entry {
            count: count.parse().ok()?,
            step: step.to_owned(),
            line,
        };
        Some(((rule.to_owned(), key.to_owned()), entry))
    });
    read.collect()
}

fn found(files: &[SourceFile]) -> BTreeMap<Key, Vec<Violation>> {
    let mut found: BTreeMap<Key, Vec<Violation>> = BTreeMap::new();
    for rule in RULES {
        for violation in (rule.check)(files) {
            let key = (rule.name.to_owned(), violation.key.clone());
            found.entry(key).or_default().push(violation);
        }
    }
    found
}

/// One line for each violation that the baseline does not know, for each line of it that is too large, and for each
/// frozen name that changed, which no baseline lets pass.
pub fn run(files: &[SourceFile], baseline: &str) -> Vec<String> {
    let mut lines = differences(files);
    let mut entries = entries(baseline);
    for ((rule, key), violations) in found(files) {
        let entry = entries.remove(&(rule.clone(), key.clone()));
        let (allowed, line) = entry.map_or((0, 0), |entry| (entry.count, entry.line));
        let is = violations.len();
        if is < allowed {
            lines.push(format!(
                "{BASELINE}:{line}: baseline: {rule} of {key} is {is} now: lower it from {allowed}"
            ));
        }
        if is > allowed {
            let known = if allowed > 0 {
                format!(" ({is}, and the baseline has {allowed})")
            } else {
                String::new()
            };
            let shown = violations.iter();
            lines.extend(shown.map(|it| format!("{}:{}: {rule}: {}{known}", it.path, it.line, it.todo)));
        }
    }
    for ((rule, key), entry) in entries {
        lines.push(format!(
            "{BASELINE}:{}: baseline: {rule} of {key} is gone: remove the line",
            entry.line
        ));
    }
    lines
}

/// A baseline of what is found now; lines that stay keep the step they name.
pub fn new_baseline(files: &[SourceFile], old: &str) -> String {
    let old = entries(old);
    let mut text =
        "# rule, path or name, count, step that removes it. `cargo xtask tidy --write-baseline` lowers counts.\n"
            .to_owned();
    for ((rule, key), violations) in found(files) {
        let default = RULES.iter().find(|it| it.name == rule).map_or("", |it| it.step);
        let entry = old.get(&(rule.clone(), key.clone()));
        let step = entry.map_or(default, |entry| &entry.step);
        let _ = writeln!(text, "{rule}\t{key}\t{}\t{step}", violations.len());
    }
    text
}

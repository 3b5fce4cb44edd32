//! The report: which case ran on which server, and how it went.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One case on one server.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Entry {
    /// Name of the case.
    pub case: String,
    /// `box` or `real`.
    pub server: String,
    /// `passed` or `failed`.
    pub result: Outcome,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// How a case went.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Outcome {
    Passed,
    Failed,
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Every case on every server.
    pub cases: Vec<Entry>,
}

impl Report {
    /// Writes it as JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Reads one back.
    ///
    /// # Errors
    /// When it is not a report.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).context("not a conformance report")
    }

    /// How many cases had an outcome on a server.
    #[must_use]
    pub fn count(&self, server: &str, result: Outcome) -> usize {
        let is = |entry: &&Entry| entry.server == server && entry.result == result;
        self.cases.iter().filter(is).count()
    }

    /// How many cases ran where.
    #[must_use]
    pub fn counts(&self) -> String {
        let ran = |server| self.cases.iter().filter(|entry| entry.server == server).count();
        format!(
            "conformance: {} cases ran on the box, {} on the real kube-apiserver",
            ran("box"),
            ran("real")
        )
    }

    /// The lines a person reads at the end.
    #[must_use]
    pub fn summary(&self) -> String {
        let all = |result| self.count("box", result) + self.count("real", result);
        let (passed, failed) = (all(Outcome::Passed), all(Outcome::Failed));
        format!("{}\n{passed} passed, {failed} failed", self.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(server: &str, result: Outcome) -> Entry {
        Entry {
            case: "a".to_owned(),
            server: server.to_owned(),
            result,
            detail: String::new(),
        }
    }

    #[test]
    fn the_summary_counts_each_server() {
        let cases = vec![
            entry("box", Outcome::Passed),
            entry("box", Outcome::Failed),
            entry("real", Outcome::Passed),
        ];
        let summary = Report { cases }.summary();
        assert!(summary.contains("2 cases ran on the box, 1 on the real"), "{summary}");
        assert!(summary.ends_with("2 passed, 1 failed"), "{summary}");
    }
}

//! Reads which specs passed out of the suite's JUnit report.
//!
//! The report is the suite's own and flat; only the attributes of `testcase` are read.

use anyhow::{Context, Result};
use regex::Regex;

/// What passed and what did not, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Specs that passed, sorted.
    pub passed: Vec<String>,
    /// Specs that failed, were interrupted or panicked, sorted.
    pub failed: Vec<String>,
}

impl Counts {
    /// Reads a report. Specs that were not selected are in it as skipped and are left out, and so
    /// are the suite's own set-up nodes unless they failed.
    ///
    /// # Errors
    /// When the text is no report of the suite.
    pub fn read(report: &str) -> Result<Self> {
        let case = Regex::new(r"<testcase\s([^>]*)>").context("a fixed pattern")?;
        let attribute = Regex::new(r#"(\w+)="([^"]*)""#).context("a fixed pattern")?;
        let mut counts = Self::default();
        for found in case.captures_iter(report) {
            let (mut name, mut status) = ("", "");
            for pair in attribute.captures_iter(found.get(1).map_or("", |m| m.as_str())) {
                let value = pair.get(2).map_or("", |m| m.as_str());
                match &pair[1] {
                    "name" => name = value,
                    "status" => status = value,
                    _ => {}
                }
            }
            match status {
                "passed" if name.starts_with("[It]") => counts.passed.push(unescape(name)),
                "passed" | "skipped" | "pending" => {}
                _ => counts.failed.push(unescape(name)),
            }
        }
        anyhow::ensure!(report.contains("<testsuites"), "no JUnit report");
        counts.passed.sort();
        counts.failed.sort();
        Ok(counts)
    }
}

fn unescape(text: &str) -> String {
    let marks = [
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    marks
        .iter()
        .fold(text.to_owned(), |text, (mark, plain)| text.replace(mark, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_specs_are_counted_and_the_others_are_not() {
        let report = r#"<testsuites><testsuite>
          <testcase name="[SynchronizedBeforeSuite]" status="passed" time="1"></testcase>
          <testcase name="[It] a &#34;b&#34;" classname="x" status="passed" time="1"></testcase>
          <testcase name="[It] c" status="failed" time="1"><failure></failure></testcase>
          <testcase name="[It] d" status="skipped" time="0"></testcase>
        </testsuite></testsuites>"#;
        let counts = Counts::read(report).expect("a report");
        assert_eq!(counts.passed, ["[It] a \"b\""]);
        assert_eq!(counts.failed, ["[It] c"]);
    }

    #[test]
    fn a_set_up_that_failed_is_a_failure() {
        let report = r#"<testsuites><testcase name="[SynchronizedBeforeSuite]" status="failed">"#;
        assert_eq!(Counts::read(report).expect("a report").failed.len(), 1);
        assert!(Counts::read("").is_err());
    }
}

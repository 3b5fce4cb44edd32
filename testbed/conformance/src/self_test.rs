//! Shows that the suite can see: breaks each rule the box can break and expects cases to fail.
//!
//! Every broken box runs in a process of its own, because the rule is read from the environment
//! when a server is made, exactly as `BOX_BREAK=<rule> conformance` does it by hand.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt};
use tokio::process::Command;

use crate::report::{Outcome, Report};

/// Rules by their name in `BOX_BREAK`, each with cases that must fail without it.
pub const RULES: &[(&str, &[&str])] = &[
    (
        "noop-write",
        &[
            "versions/an-equal-put-is-not-written",
            "versions/an-equal-merge-patch-is-not-written",
            "versions/an-equal-apply-is-not-written",
        ],
    ),
    (
        "conflict",
        &[
            "versions/a-put-with-an-old-version-conflicts",
            "status/the-subresource-shares-the-version",
            "lease/compare-and-swap",
        ],
    ),
    (
        "generation",
        &[
            "status/generation-ignores-metadata",
            "status/the-subresource-moves-no-generation",
        ],
    ),
    (
        "finalizer-event",
        &[
            "deletion/the-last-finalizer-ends-it-by-patch",
            "deletion/the-last-finalizer-ends-it-by-put",
        ],
    ),
    (
        "selector-leave",
        &[
            "watch/entering-and-leaving-a-label-selector",
            "watch/entering-and-leaving-a-field-selector",
        ],
    ),
    (
        "ssa-prune",
        &[
            "apply/the-last-owner-takes-the-field-along",
            "apply/a-dropped-field-is-defaulted-again",
        ],
    ),
    (
        "status-isolation",
        &[
            "status/a-main-put-cannot-change-it",
            "status/a-main-merge-patch-cannot-change-it",
        ],
    ),
];

/// Runs the suite on the box once per rule; returns the number of rules seen and not seen.
///
/// # Errors
/// When the suite cannot be run at all.
pub async fn run() -> Result<(usize, usize)> {
    let program = std::env::current_exe().context("finding this program")?;
    let dir = tempfile::tempdir()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let reports = RULES.iter().map(|(rule, _)| {
        let (program, path) = (&program, dir.path().join(format!("{rule}.json")));
        async move { broken(program, rule, &path).await }
    });
    let mut reports = stream::iter(reports).buffered(cores);
    let mut missed = 0;
    for (rule, cases) in RULES {
        let report = reports.next().await.context("one report for each rule")??;
        let failed = |case: &&str| {
            let is = |entry: &&crate::report::Entry| entry.case == **case;
            report
                .cases
                .iter()
                .find(is)
                .is_some_and(|entry| entry.result == Outcome::Failed)
        };
        let unseen: Vec<_> = cases.iter().filter(|case| !failed(case)).collect();
        let count = report.count("box", Outcome::Failed);
        println!(
            "BOX_BREAK={rule}: {count} cases fail, {} of {} named",
            cases.len() - unseen.len(),
            cases.len()
        );
        if !unseen.is_empty() {
            println!("  NOT SEEN by {unseen:?}");
            missed += 1;
        }
    }
    Ok((RULES.len() - missed, missed))
}

async fn broken(program: &Path, rule: &str, report: &Path) -> Result<Report> {
    let output = Command::new(program)
        .env("BOX_BREAK", rule)
        .args(["--server", "box", "--report"])
        .arg(report)
        .output()
        .await
        .context("running the suite on a broken box")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(report.exists(), "BOX_BREAK={rule} gave no report: {text}");
    Report::read(report)
}

#[cfg(test)]
mod tests {
    use aplomb_apiserver::mutation::Rule;

    use super::*;

    #[test]
    fn every_rule_has_cases_that_exist() {
        let known: Vec<_> = crate::cases::all().iter().map(|case| case.name).collect();
        for (rule, _) in Rule::ALL {
            assert!(RULES.iter().any(|(name, _)| *name == rule), "{rule} has no cases");
        }
        for case in RULES.iter().flat_map(|(_, cases)| cases.iter()) {
            assert!(known.contains(case), "{case} is no case");
        }
    }
}

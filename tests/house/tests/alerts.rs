//! Alerts, their runbooks, their tests and the metrics they are made of belong together.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const RULES: &str = "deploy/egress/monitoring/prometheusrule.yaml";
const TELEMETRY: &str = "crates/egress/src/telemetry";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of a folder's files, without their ending.
fn stems(folder: &str, ending: &str) -> BTreeSet<String> {
    let files = fs::read_dir(root().join(folder)).expect("a folder");
    let names = files.map(|file| file.expect("an entry").file_name());
    names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(ending)?.to_owned()))
        .collect()
}

fn values(text: &str, key: &str) -> BTreeSet<String> {
    let lines = text.lines();
    let found = lines.filter_map(|line| line.trim().strip_prefix(key));
    found.map(|value| value.trim().to_owned()).collect()
}

fn alerts() -> BTreeSet<String> {
    values(&read(RULES), "- alert:")
}

/// Every word of `text` that begins with `prefix`.
fn words(text: &str, prefix: &str) -> BTreeSet<String> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = parts.filter(|word| word.starts_with(prefix));
    names.map(str::to_owned).collect()
}

#[test]
fn every_alert_has_its_page_and_every_page_its_alert() {
    let alerts = alerts();
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(stems("docs/runbooks", ".md"), alerts);
    let urls = values(&read(RULES), "runbook_url:");
    let pages = alerts
        .iter()
        .map(|alert| format!("docs/runbooks/{alert}.md"));
    assert_eq!(urls, pages.collect());
}

#[test]
fn every_alert_is_shown_to_fire_and_to_stay_quiet() {
    assert_eq!(stems("tests/egress/alerts", ".yaml"), alerts());
    for alert in alerts() {
        let text = read(format!("tests/egress/alerts/{alert}.yaml"));
        assert!(text.contains("exp_labels:"), "{alert} never fires");
        assert!(text.contains("exp_alerts: []"), "{alert} is never quiet");
    }
}

#[test]
fn every_page_says_when_to_leave_it() {
    for alert in alerts() {
        let text = read(format!("docs/runbooks/{alert}.md"));
        for part in ["# ", "## Look", "## Do", "## Leave it", "kubectl"] {
            assert!(text.contains(part), "{alert} lacks {part:?}");
        }
    }
}

#[test]
fn every_metric_of_the_rules_and_pages_is_one_of_ours() {
    let sources = stems(TELEMETRY, ".rs").into_iter();
    let sources: String = sources
        .map(|name| read(format!("{TELEMETRY}/{name}.rs")))
        .collect();
    let known = words(&sources, "aplomb_egress_");
    let pages = alerts().into_iter();
    let mut used: String = pages
        .map(|alert| read(format!("docs/runbooks/{alert}.md")))
        .collect();
    used.push_str(&read(RULES));
    used.push_str(&read("docs/egress.md"));
    let used = words(&used, "aplomb_egress_");
    assert!(used.len() > 15, "{used:?}");
    for name in used.iter().filter(|name| !name.ends_with('_')) {
        let bare = name.strip_suffix("_total").unwrap_or(name);
        assert!(known.contains(bare), "{name} is no metric");
    }
}

#[test]
fn every_metric_is_in_the_documentation() {
    let documented = words(&read("docs/egress.md"), "aplomb_egress_");
    for name in ["gateway", "moves", "provider"] {
        let text = read(format!("{TELEMETRY}/{name}.rs"));
        let names = values(&text, "name: \"aplomb_egress_");
        for name in names.iter().map(|name| name.trim_end_matches("\",")) {
            let name = format!("aplomb_egress_{name}");
            let found = documented.contains(&name) || documented.contains(&format!("{name}_total"));
            assert!(found, "docs/egress.md does not tell of {name}");
        }
    }
}

//! Alerts, their runbooks, their tests and the metrics they are made of belong together.

use std::collections::BTreeSet;
use std::fs;

use xtask::{quoted, read, root};

/// The operators that have alerts.
const OPERATORS: [&str; 3] = ["coder", "egress", "tunnel"];

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

fn rules(operator: &str) -> String {
    read(format!("deploy/{operator}/monitoring/prometheusrule.yaml"))
}

fn alerts_of(operator: &str) -> BTreeSet<String> {
    values(&rules(operator), "- alert:")
}

fn alerts() -> BTreeSet<String> {
    OPERATORS.into_iter().flat_map(alerts_of).collect()
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
    let rules = OPERATORS.map(rules).concat();
    let urls = values(&rules, "runbook_url:");
    let pages = alerts.iter().map(|alert| format!("docs/runbooks/{alert}.md"));
    assert_eq!(urls, pages.collect());
}

#[test]
fn every_alert_is_shown_to_fire_and_to_stay_quiet() {
    for operator in OPERATORS {
        let folder = format!("deploy/{operator}/monitoring/tests");
        assert_eq!(stems(&folder, ".yaml"), alerts_of(operator));
        for alert in alerts_of(operator) {
            let text = read(format!("{folder}/{alert}.yaml"));
            assert!(text.contains("exp_labels:"), "{alert} never fires");
            assert!(text.contains("exp_alerts: []"), "{alert} is never quiet");
        }
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

/// The names of the product that begin with one of `prefixes`; what ends in `_` is a beginning itself.
fn registered(prefixes: &[&str]) -> BTreeSet<String> {
    let ours = |name: &String| {
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        plain && !name.ends_with('_') && prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    quoted().into_iter().filter(ours).collect()
}

/// Holds the rules, the runbooks and the page of an operator to the metrics that it registers.
fn holds(operator: &str, prefixes: &[&str]) {
    let known = registered(prefixes);
    let pages = alerts_of(operator).into_iter();
    let mut text: String = pages.map(|alert| read(format!("docs/runbooks/{alert}.md"))).collect();
    text.push_str(&rules(operator));
    let documented = read(format!("docs/{operator}.md"));
    text.push_str(&documented);
    assert!(known.len() > 8, "{known:?}");
    let named = prefixes.iter().flat_map(|prefix| words(&text, prefix));
    for name in named {
        let bare = ["_total", "_bucket"]
            .iter()
            .fold(&*name, |name, end| name.strip_suffix(end).unwrap_or(name));
        let start = name.ends_with('_');
        // Crates are log targets, and begin as metrics do.
        let folder = name.replacen("aplomb_", "crates/", 1).replace('_', "-");
        let start = start || root().join(folder).is_dir();
        assert!(start || known.contains(bare), "{name} is not a metric");
    }
    let documented = words(&documented, "aplomb_");
    for name in &known {
        let found = documented.contains(name) || documented.contains(&format!("{name}_total"));
        assert!(found, "docs/{operator}.md does not name {name}");
    }
}

#[test]
fn every_metric_of_tunnels_is_documented_and_every_documented_one_exists() {
    holds("tunnel", &["aplomb_tunnel_", "aplomb_gateway_"]);
}

#[test]
fn every_metric_of_coder_is_documented_and_every_documented_one_exists() {
    holds("coder", &["aplomb_coder_"]);
}

#[test]
fn every_metric_of_egress_is_documented_and_every_documented_one_exists() {
    holds("egress", &["aplomb_egress_"]);
}

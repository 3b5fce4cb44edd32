//! Alerts, their runbooks, their tests and the metrics they are made of belong together.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The operators that have alerts.
const OPERATORS: [&str; 3] = ["coder", "egress", "tunnel"];
const TELEMETRY: &str = "crates/egress-operator/src/telemetry";
/// Where the metrics of the Coder operator are named.
const CODER: [&str; 2] = [
    "crates/coder-operator/src/telemetry/calls.rs",
    "crates/coder-operator/src/telemetry/objects.rs",
];
/// Where the metrics of tunnels are named.
const TUNNELS: [&str; 2] = [
    "crates/tunnel-operator/src/telemetry.rs",
    "crates/tunnel-gateway/src/telemetry.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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
    let pages = alerts
        .iter()
        .map(|alert| format!("docs/runbooks/{alert}.md"));
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

#[test]
fn every_metric_of_the_rules_and_pages_is_one_of_ours() {
    let sources = stems(TELEMETRY, ".rs").into_iter();
    let sources: String = sources
        .map(|name| read(format!("{TELEMETRY}/{name}.rs")))
        .collect();
    let known = words(&sources, "aplomb_egress_");
    let pages = alerts_of("egress").into_iter();
    let mut used: String = pages
        .map(|alert| read(format!("docs/runbooks/{alert}.md")))
        .collect();
    used.push_str(&rules("egress"));
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

/// The names that are registered: whatever stands in quotes and begins as ours do.
fn registered(sources: &[&str], prefixes: &[&str]) -> BTreeSet<String> {
    let sources: String = sources.iter().map(read).collect();
    let quoted = sources.split('"').skip(1).step_by(2);
    let ours = |name: &&str| {
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        plain && prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    quoted.filter(ours).map(str::to_owned).collect()
}

/// Holds the rules, the runbooks and the page of an operator to the metrics that it registers.
fn told_of(operator: &str, known: &BTreeSet<String>, prefixes: &[&str]) {
    let pages = alerts_of(operator).into_iter();
    let mut text: String = pages
        .map(|alert| read(format!("docs/runbooks/{alert}.md")))
        .collect();
    text.push_str(&rules(operator));
    let documented = read(format!("docs/{operator}.md"));
    text.push_str(&documented);
    assert!(known.len() > 8, "{known:?}");
    let told = prefixes.iter().flat_map(|prefix| words(&text, prefix));
    for name in told {
        let bare = ["_total", "_bucket"]
            .iter()
            .fold(&*name, |name, end| name.strip_suffix(end).unwrap_or(name));
        let start = name.ends_with('_');
        assert!(start || known.contains(bare), "{name} is no metric");
    }
    let documented = words(&documented, "aplomb_");
    for name in known {
        let found = documented.contains(name) || documented.contains(&format!("{name}_total"));
        assert!(found, "docs/{operator}.md does not tell of {name}");
    }
}

#[test]
fn every_metric_of_tunnels_is_told_of_and_every_one_told_of_is_there() {
    let prefixes = ["aplomb_tunnel_", "aplomb_gateway_"];
    told_of("tunnel", &registered(&TUNNELS, &prefixes), &prefixes);
}

#[test]
fn every_metric_of_coder_is_told_of_and_every_one_told_of_is_there() {
    let prefixes = ["aplomb_coder_"];
    told_of("coder", &registered(&CODER, &prefixes), &prefixes);
}

//! docs/metrics.md names every metric that is registered and no other, with the alerts and the dashboard that use it.
//!
//! That types and labels are those of a process at work is shown by the suite `lifecycle` of the CLI.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where metrics are named, and nowhere else.
const SOURCES: [&str; 5] = [
    "crates/runtime/src/telemetry",
    "crates/coder-operator/src/telemetry",
    "crates/egress-operator/src/telemetry",
    "crates/tunnel-gateway/src",
    "crates/tunnel-operator/src",
];
const PREFIXES: [&str; 5] = [
    "aplomb_",
    "controller_runtime_",
    "leader_election_",
    "rest_client_",
    "workqueue_",
];
/// Registered under a prefix that is given apart.
const PREFIXED: [(&str, &str); 2] = [("theirs", "controller_runtime_"), ("ours", "aplomb_")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() {
            sources(&path, all);
        } else if name != "tests.rs" && path.to_string_lossy().contains("telemetry") {
            all.push(path.clone());
        }
    }
}

/// The names in quotes that begin as metrics do, and those that are registered under a prefix.
fn named(source: &str) -> BTreeSet<String> {
    let quoted = source.split('"').skip(1).step_by(2);
    let word = |it: &&str| it.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let whole = quoted
        .filter(word)
        .filter(|it| PREFIXES.iter().any(|prefix| it.starts_with(prefix)));
    let mut names: BTreeSet<String> = whole.map(str::to_owned).collect();
    for (registry, prefix) in PREFIXED {
        let call = format!("{registry}.register(");
        let calls = source.split(&*call).skip(1);
        let first = calls.filter_map(|rest| rest.split('"').nth(1));
        names.extend(first.map(|name| format!("{prefix}{name}")));
    }
    names
}

/// The rows of the page: what is used by, for each metric.
fn rows() -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(root().join("docs/metrics.md")).expect("readable");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let read = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{row}");
        let users = cells[4].split(", ").filter(|it| !it.is_empty());
        let users = users.map(|it| it.trim_start_matches('[').split(']').next().unwrap_or(it));
        let name = cells[0].trim_end_matches('`').to_owned();
        (name, users.map(str::to_owned).collect())
    });
    read.collect()
}

/// The name that the code registers for a name of Prometheus.
fn registered(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

fn words(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let ends = ["_bucket", "_sum", "_count"];
    words
        .map(|word| {
            ends.iter()
                .fold(word, |word, end| word.strip_suffix(end).unwrap_or(word))
        })
        .collect()
}

#[test]
fn the_page_names_what_the_code_registers() {
    let mut paths = Vec::new();
    for folder in SOURCES {
        sources(&root().join(folder), &mut paths);
    }
    paths
        .extend(["coder", "egress"].map(|it| root().join(format!("crates/{it}/src/telemetry.rs"))));
    let texts = paths
        .iter()
        .map(|path| fs::read_to_string(path).expect("readable"));
    let code: BTreeSet<String> = texts.flat_map(|text| named(&text)).collect();
    // Beginnings of names that are put together; none of them is a metric itself.
    let code: BTreeSet<&str> = code
        .iter()
        .map(String::as_str)
        .filter(|it| !it.ends_with('_') && !PREFIXES.contains(&&*format!("{it}_")))
        .collect();
    let rows = rows();
    let page: BTreeSet<&str> = rows.keys().map(|name| registered(name)).collect();
    assert!(page.len() > 80, "{}", page.len());
    let missing: Vec<_> = code.difference(&page).collect();
    let extra: Vec<_> = page.difference(&code).collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
    assert!(extra.is_empty(), "nobody registers {extra:?}");
}

#[test]
fn the_page_names_the_alerts_and_the_dashboard_that_use_a_metric() {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for operator in ["coder", "egress", "tunnel"] {
        let path = format!("deploy/{operator}/monitoring/prometheusrule.yaml");
        let rules = fs::read_to_string(root().join(path)).expect("readable");
        for rule in rules.split("- alert: ").skip(1) {
            let alert = rule.lines().next().expect("a name").trim();
            for word in words(rule) {
                used.entry(word.to_owned())
                    .or_default()
                    .insert(alert.to_owned());
            }
        }
    }
    let dashboard = fs::read_to_string(root().join("dashboards/aplomb.json")).expect("readable");
    for word in words(&dashboard) {
        used.entry(word.to_owned())
            .or_default()
            .insert("dashboard".to_owned());
    }
    for (metric, told) in rows() {
        let users = used.remove(&metric).unwrap_or_default();
        assert_eq!(told, users, "docs/metrics.md on what uses {metric}");
    }
}

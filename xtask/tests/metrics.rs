//! docs/metrics.md names every metric that is registered and no other, with the alerts and the dashboard that use it.
//!
//! That types and labels are those of a process at work is shown by the suite `lifecycle` of the CLI.

use std::collections::{BTreeMap, BTreeSet};

use xtask::{quoted, read};

const PREFIXES: [&str; 5] = [
    "aplomb_",
    "controller_runtime_",
    "leader_election_",
    "rest_client_",
    "workqueue_",
];
/// The rows of the page: what is used by, for each metric.
fn rows() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/metrics.md");
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
    let is_name = |it: &&str| {
        let plain = it.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        // What ends so is the beginning of a name that is put together for a query.
        plain && !it.ends_with('_') && PREFIXES.iter().any(|prefix| it.starts_with(prefix))
    };
    let code = quoted();
    let code: BTreeSet<&str> = code.iter().map(String::as_str).filter(is_name).collect();
    let rows = rows();
    let page: BTreeSet<&str> = rows.keys().map(|name| registered(name)).collect();
    assert!(page.len() > 80, "{}", page.len());
    let missing: Vec<_> = code.difference(&page).collect();
    let extra: Vec<_> = page.difference(&code).collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
    assert!(extra.is_empty(), "the code does not register {extra:?}");
}

#[test]
fn the_page_names_the_alerts_and_the_dashboard_that_use_a_metric() {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for operator in ["coder", "egress", "tunnel"] {
        let path = format!("deploy/{operator}/monitoring/prometheusrule.yaml");
        let rules = read(path);
        for rule in rules.split("- alert: ").skip(1) {
            let alert = rule.lines().next().expect("a name").trim();
            for word in words(rule) {
                used.entry(word.to_owned()).or_default().insert(alert.to_owned());
            }
        }
    }
    let dashboard = read("dashboards/aplomb.json");
    for word in words(&dashboard) {
        used.entry(word.to_owned()).or_default().insert("dashboard".to_owned());
    }
    for (metric, told) in rows() {
        let users = used.remove(&metric).unwrap_or_default();
        assert_eq!(told, users, "docs/metrics.md on what uses {metric}");
    }
}

//! What installs the operators: the charts, their documentation, the dashboard and the image belong together.

use std::collections::BTreeSet;

use serde_json::Value;
use xtask::{quoted, read, root};

const DASHBOARD: &str = "dashboards/aplomb.json";
/// What metrics of ours begin with; those of the runtime that follow others' names too.
const PREFIXES: [&str; 5] = [
    "aplomb_",
    "controller_runtime_",
    "leader_election_",
    "rest_client_",
    "workqueue_",
];
/// What an exposition adds to the name of a metric.
const SUFFIXES: [&str; 4] = ["_total", "_bucket", "_sum", "_count"];

/// Every query of the dashboard.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| queries(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

fn metrics(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
}

#[test]
fn every_metric_of_the_dashboard_is_registered() {
    let known = quoted();
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("JSON");
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for query in &found {
        assert!(metrics(query).next().is_some(), "{query} asks for nothing");
        for name in metrics(query) {
            let bare = SUFFIXES.iter().find_map(|end| name.strip_suffix(end));
            let bare = bare.unwrap_or(name);
            // Some are registered under their prefix.
            let short = PREFIXES.iter().find_map(|prefix| bare.strip_prefix(prefix));
            let there = [Some(bare), short].into_iter().flatten();
            let there = there.chain([name]).any(|name| known.contains(name));
            assert!(there, "{name} is not a metric: {query}");
        }
    }
}

/// The leaves of values.yaml, as `a.b.c`, by their indentation.
fn leaves(text: &str) -> Vec<String> {
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut all: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((key, _)) = line.trim().split_once(':') else {
            continue;
        };
        let depth = line.len() - line.trim_start().len();
        path.retain(|(at, _)| *at < depth);
        path.push((depth, key.to_owned()));
        let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
        let name = names.join(".");
        // A parent is not a leaf once it has a child.
        all.retain(|known| !name.starts_with(&format!("{known}.")));
        all.push(name);
    }
    all
}

/// Requests and limits are documented together.
fn whole(leaf: String) -> String {
    match leaf.split_once(".resources.") {
        Some((owner, _)) => format!("{owner}.resources"),
        None => leaf,
    }
}

#[test]
fn every_value_of_the_charts_is_in_the_documentation_and_no_other() {
    let page = read("docs/install.md");
    for chart in ["aplomb", "aplomb-crds"] {
        let heading = format!("### Values of `{chart}`");
        let section = page.split_once(&heading).expect(&heading).1;
        let section = section.split("\n#").next().unwrap_or_default();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let told: BTreeSet<String> = rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect();
        let there = leaves(&read(format!("charts/{chart}/values.yaml")));
        let there: BTreeSet<String> = there.into_iter().map(whole).collect();
        assert_eq!(told, there, "docs/install.md and charts/{chart}/values.yaml");
    }
}

#[test]
fn the_image_is_built_from_what_is_there_and_names_no_registry() {
    let text = read("deploy/Dockerfile");
    let mut copied = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        if line.starts_with("--from=") {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, sources) = words.split_last().expect("a source and a target");
        for source in sources {
            assert!(root().join(source).exists(), "COPY {source}: no such file");
            copied += 1;
        }
    }
    assert!(copied > 3, "nothing is copied");
    for base in text.lines().filter_map(|line| line.strip_prefix("FROM ")) {
        assert!(!base.contains('/'), "FROM {base} names a registry");
    }
    for part in ["FROM scratch", "USER 65532:65532", "ca-certificates.crt"] {
        assert!(text.contains(part), "no {part}");
    }
}

#[test]
fn charts_and_workspace_have_one_version() {
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    let version = version.expect("a version").trim_matches('"');
    for chart in ["aplomb", "aplomb-crds"] {
        let text = read(format!("charts/{chart}/Chart.yaml"));
        for key in ["version", "appVersion"] {
            let line = format!("{key}: {version}");
            assert!(text.lines().any(|it| it == line), "{chart} has no {line}");
        }
    }
}

/// What a manifest gives, as rows of a table begin: the resources, and the verbs.
fn given(manifest: &str) -> Vec<String> {
    let text = read(manifest);
    let mut resources = String::new();
    let mut rows = Vec::new();
    for line in text.lines().map(str::trim) {
        let list = |key: &str| {
            let list = line.strip_prefix(key)?.strip_prefix(" [")?;
            list.strip_suffix(']').map(str::to_owned)
        };
        if let Some(list) = list("resources:") {
            let quoted: Vec<String> = list.split(", ").map(|it| format!("`{it}`")).collect();
            resources = quoted.join(", ");
        }
        if let Some(verbs) = list("verbs:") {
            rows.push(format!("| {resources} | {verbs} |"));
        }
    }
    rows
}

#[test]
fn the_rights_in_the_documentation_are_those_that_are_given() {
    let page = read("docs/install.md");
    for (account, manifest) in [
        ("aplomb-tunnel", "deploy/tunnel/02-operator-rbac.yaml"),
        ("aplomb-gateway", "deploy/tunnel/03-gateway-rbac.yaml"),
        ("aplomb-coder", "deploy/coder/02-rbac.yaml"),
        ("aplomb-egress", "deploy/egress/02-rbac.yaml"),
        ("aplomb-egress-host", "deploy/egress/host/daemonset.yaml"),
    ] {
        let heading = format!("### Rights of `{account}`\n");
        let section = page.split_once(&heading).expect(&heading).1;
        let section = section.split("\n#").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let told: Vec<String> = rows
            .filter_map(|row| Some(row.rsplit_once(" | ")?.0.to_owned() + " |"))
            .collect();
        assert_eq!(told, given(manifest), "{account} in docs/install.md");
    }
}

//! The objects that `helm uninstall` leaves: exactly the kinds that docs/install.md lists.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::helm::SYSTEM;
use crate::stage::Stage;
use crate::workloads::{CODER, TENANT_NAMESPACE};

const DOCS: &str = include_str!("../../../../docs/install.md");
/// The table of what is left comes after this line.
const HEADING: &str = "## What is left";
/// Objects that the test has created, not the release: kind and name.
const USER_OBJECTS: [&str; 12] = [
    "Namespace home",
    "Namespace coder",
    "ServiceAccount aplomb-agent",
    "Role aplomb-agent",
    "RoleBinding aplomb-agent",
    "Secret hcloud",
    "Secret coder-token",
    "Node gateway-a",
    "Node gateway-b",
    "CustomResourceDefinition servicemonitors.monitoring.coreos.com",
    "CustomResourceDefinition prometheusrules.monitoring.coreos.com",
    "ConfigMap kube-root-ca.crt",
];

pub(crate) async fn uninstall(stage: &mut Stage) -> Result<()> {
    stage.helm(&["uninstall", "aplomb", "--namespace", SYSTEM])?;
    stage.stop_all()?;
    if let Some(agent) = &mut stage.agent {
        agent.kill()?;
    }
    stage.helm(&["uninstall", "aplomb-crds", "--namespace", SYSTEM])?;
    let left = remaining_objects(stage)?;
    let documented = documented_objects();
    ensure!(left == documented, "left {left:?}, documented {documented:?}");
    println!("        {left:?}");
    for object in ["httpproxy/laptop", "connector/laptop"] {
        stage.kubectl(&["get", "-n", TENANT_NAMESPACE, object])?;
    }
    stage.kubectl(&["get", "stableegress/web"])?;
    Ok(())
}

/// The kinds in the first column of the table.
fn documented_objects() -> BTreeSet<String> {
    let after = DOCS.split_once(HEADING).map_or("", |(_, after)| after);
    let section = after.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let kinds = rows.filter_map(|row| row.split_once('|'));
    kinds
        .flat_map(|(first, _)| first.split('`').step_by(2))
        .map(|kind| kind.trim_matches([' ', ',']).to_owned())
        .filter(|kind| !kind.is_empty())
        .collect()
}

/// The kinds of all objects that neither the control plane nor the test has created.
fn remaining_objects(stage: &Stage) -> Result<BTreeSet<String>> {
    let kinds = stage.kubectl(&["api-resources", "--verbs=list", "-o", "name"])?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.contains("events")).collect();
    let all = stage.kubectl(&["get", &kinds.join(","), "-A", "-o", "json"])?;
    let all: Value = serde_json::from_str(&all)?;
    let mut left = BTreeSet::new();
    for item in all["items"].as_array().context("no list")? {
        let text = |path: &str| item.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let ours = [SYSTEM, TENANT_NAMESPACE, CODER].contains(&text("/metadata/namespace"))
            || text("/apiVersion").starts_with("aplomb.dev/")
            || ["aplomb", SYSTEM].iter().any(|word| name.starts_with(word))
            || kind == "CustomResourceDefinition";
        if ours && !USER_OBJECTS.contains(&format!("{kind} {name}").as_str()) {
            left.insert(kind.to_owned());
        }
    }
    Ok(left)
}

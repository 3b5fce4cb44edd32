//! What the ServiceAccount may do, what it did, and that the two are the same.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::stage::{ACCOUNT, Stage};

/// What it must not be allowed, by verb, resource and namespace.
const NEVER: [(&str, &str, &str); 12] = [
    ("get", "secrets", "default"),
    ("list", "secrets", "kube-system"),
    ("create", "secrets", "aplomb-system"),
    ("delete", "nodes", ""),
    ("update", "nodes/status", ""),
    ("create", "nodes", ""),
    ("patch", "stableegresses", ""),
    ("delete", "stableegresses", ""),
    ("create", "pods", "aplomb-system"),
    ("list", "pods", "default"),
    ("create", "pods/exec", "aplomb-system"),
    ("get", "leases.coordination.k8s.io", "kube-system"),
];

pub(crate) fn bounds(stage: &Stage) -> Result<()> {
    let subject = format!("--as={ACCOUNT}");
    for (verb, resource, namespace) in NEVER {
        let mut args = vec!["auth", "can-i", verb, resource, &subject];
        if !namespace.is_empty() {
            args.extend(["-n", namespace]);
        }
        // It ends with 1 for no.
        ensure!(
            stage.kubectl(&args).is_err(),
            "it may {verb} {resource} in {namespace:?}"
        );
    }
    let may = ["auth", "can-i", "patch", "nodes", &subject];
    stage.kubectl(&may)?;
    Ok(())
}

/// Its requests, from the audit log.
fn requests(stage: &Stage) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(stage.plane.audit_log())?;
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines
        .filter(|line| line["user"]["username"] == ACCOUNT)
        .collect())
}

fn resource(request: &Value) -> String {
    let object = &request["objectRef"];
    let part = |key: &str| object[key].as_str().unwrap_or_default();
    match part("subresource") {
        "" => part("resource").to_owned(),
        sub => format!("{}/{sub}", part("resource")),
    }
}

pub(crate) fn refusals(stage: &Stage) -> Result<()> {
    let requests = requests(stage)?;
    ensure!(
        requests.len() > 50,
        "the audit log knows of {} requests",
        requests.len()
    );
    let refused: BTreeSet<String> = requests
        .iter()
        .filter(|request| request["responseStatus"]["code"] == 403)
        .map(|request| format!("{} {}", request["verb"], resource(request)))
        .collect();
    ensure!(refused.is_empty(), "{refused:?}");
    for replica in &stage.replicas {
        let log = replica.process.log()?;
        let line = log
            .lines()
            .find(|line| line.to_lowercase().contains("forbidden"));
        ensure!(line.is_none(), "{}: {line:?}", replica.name);
    }
    Ok(())
}

/// What is granted and was not used is granted too much. `get` is for a look after a conflict, which
/// need not have happened; pods and patches of Events for what this cluster does not have.
pub(crate) fn needed(stage: &Stage) -> Result<()> {
    let requests = requests(stage)?;
    let used: BTreeSet<(String, String)> = requests
        .iter()
        .map(|request| {
            let verb = request["verb"].as_str().unwrap_or_default();
            (resource(request), verb.to_owned())
        })
        .collect();
    let unused: BTreeSet<_> = granted(stage)?
        .into_iter()
        .filter(|(resource, verb)| {
            verb != "get"
                && (resource.as_str(), verb.as_str()) != ("events", "patch")
                && !used.contains(&(resource.clone(), verb.clone()))
        })
        .collect();
    ensure!(
        unused.is_empty(),
        "granted and never used: {unused:?}; used: {used:?}"
    );
    Ok(())
}

fn granted(stage: &Stage) -> Result<BTreeSet<(String, String)>> {
    let mut granted = BTreeSet::new();
    for role in [
        &["clusterrole", "aplomb-egress"][..],
        &["role", "aplomb-egress", "-n", "aplomb-system"],
        &["role", "aplomb-egress-events", "-n", "default"],
    ] {
        let args = [&["get", "-o", "json"], role].concat();
        let role: Value = serde_json::from_str(&stage.kubectl(&args)?)?;
        for rule in role["rules"].as_array().into_iter().flatten() {
            let words = |key: &str| {
                let words = rule[key].as_array().into_iter().flatten();
                words
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            for resource in words("resources") {
                let pairs = words("verbs")
                    .into_iter()
                    .map(|verb| (resource.clone(), verb));
                granted.extend(pairs);
            }
        }
    }
    Ok(granted)
}

//! The rights of the ServiceAccount and its requests, and that the two are the same.

use anyhow::{Result, ensure};

use crate::helm::SYSTEM;
use crate::rights::{Account, LOOK};
use crate::stage::{ACCOUNT, Stage};

const EVENT_SERIES_REASON: &str = "an Event that repeats within minutes is updated";
/// Forbidden rights: verb, resource and namespace.
const FORBIDDEN_RIGHTS: [(&str, &str, &str); 12] = [
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

pub(crate) fn check_bounds(stage: &Stage) -> Result<()> {
    let subject = format!("--as={ACCOUNT}");
    for (verb, resource, namespace) in FORBIDDEN_RIGHTS {
        let mut args = vec!["auth", "can-i", verb, resource, &subject];
        if !namespace.is_empty() {
            args.extend(["-n", namespace]);
        }
        // kubectl exits with 1 for no.
        ensure!(
            stage.kubectl(&args).is_err(),
            "it may {verb} {resource} in {namespace:?}"
        );
    }
    let may = ["auth", "can-i", "patch", "nodes", &subject];
    stage.kubectl(&may)?;
    Ok(())
}

/// The granted rights are exactly the used ones.
pub(crate) fn check_rights(stage: &Stage) -> Result<()> {
    for replica in &stage.replicas {
        let log = replica.process.log()?;
        let line = log.lines().find(|line| line.to_lowercase().contains("forbidden"));
        ensure!(line.is_none(), "{}: {line:?}", replica.name);
    }
    let account = Account::of(&stage.plane, SYSTEM, "aplomb-egress")?;
    let excuses = [
        ("get stableegresses", LOOK),
        ("get nodes", LOOK),
        ("get ciliumnodes", LOOK),
        ("patch events", EVENT_SERIES_REASON),
    ];
    account.settle("aplomb-egress", &excuses)
}

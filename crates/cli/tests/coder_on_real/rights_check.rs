//! The rights of the ServiceAccount, and its requests according to the API server's audit log.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::helm::SYSTEM;
use crate::rights::{Account, Excuse, LOOK};
use crate::stage::{ACCOUNT, Stage};

const EVENT_SERIES_REASON: &str = "an Event that repeats within minutes is updated";
/// Forbidden rights: verb, resource and namespace.
const FORBIDDEN_RIGHTS: [(&str, &str, &str); 12] = [
    ("escalate", "roles.rbac.authorization.k8s.io", "coder"),
    ("bind", "roles.rbac.authorization.k8s.io", "coder"),
    ("escalate", "clusterroles.rbac.authorization.k8s.io", ""),
    ("bind", "clusterroles.rbac.authorization.k8s.io", ""),
    ("impersonate", "serviceaccounts", "coder"),
    ("create", "serviceaccounts/token", "coder"),
    ("create", "clusterroles.rbac.authorization.k8s.io", ""),
    ("create", "pods/exec", "coder"),
    ("delete", "namespaces", ""),
    ("create", "coderprovisioners.aplomb.dev", "coder"),
    ("delete", "coderprovisioners.aplomb.dev", "coder"),
    ("update", "nodes", ""),
];

const GRANTED_RIGHTS_REASON: &str = "granted by the operator: it is in the Role that it creates for daemons";
const OWNER_REFERENCE_REASON: &str =
    "required by the admission plugin OwnerReferencesPermissionEnforcement, which this server runs";
/// Rights whose use is not in the audit log.
const EXCUSES: [Excuse; 13] = [
    ("* pods", GRANTED_RIGHTS_REASON),
    ("* persistentvolumeclaims", GRANTED_RIGHTS_REASON),
    ("update coderprovisioners/finalizers", OWNER_REFERENCE_REASON),
    ("update coderworkspaceproxies/finalizers", OWNER_REFERENCE_REASON),
    ("get coderprovisioners", LOOK),
    ("get coderworkspaceproxies", LOOK),
    ("get secrets", LOOK),
    ("get serviceaccounts", LOOK),
    ("get services", LOOK),
    ("get roles", LOOK),
    ("get rolebindings", LOOK),
    ("get deployments", LOOK),
    ("patch events", EVENT_SERIES_REASON),
];

pub(crate) fn check_bounds(stage: &Stage) -> Result<()> {
    let subject = format!("--as={ACCOUNT}");
    for (verb, resource, namespace) in FORBIDDEN_RIGHTS {
        // kubectl would read a slash as a name.
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let part = format!("--subresource={part}");
        let mut args = vec!["auth", "can-i", verb, resource, &part, &subject];
        if !namespace.is_empty() {
            args.extend(["-n", namespace]);
        }
        // kubectl exits with 1 for no.
        ensure!(
            stage.kubectl(&args).is_err(),
            "it may {verb} {resource} in {namespace:?}"
        );
    }
    // An account can only grant the rights it has.
    for resource in ["pods", "persistentvolumeclaims"] {
        stage.kubectl(&["auth", "can-i", "create", resource, &subject, "-n", "coder"])?;
    }
    Ok(())
}

/// Its requests, from the audit log.
fn write_requests(stage: &Stage) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(stage.plane.audit_log())?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter(|line| line["user"]["username"] == ACCOUNT).collect())
}

fn resource_name(request: &Value) -> String {
    let object = &request["objectRef"];
    let part = |key: &str| object[key].as_str().unwrap_or_default();
    match part("subresource") {
        "" => part("resource").to_owned(),
        sub => format!("{}/{sub}", part("resource")),
    }
}

/// How many times it wrote the status of a CoderProvisioner.
pub(crate) fn status_writes(stage: &Stage, name: &str) -> Result<usize> {
    let requests = write_requests(stage)?;
    let of = requests.iter().filter(|request| {
        let ended = request["stage"] == "ResponseComplete";
        let status = resource_name(request) == "coderprovisioners/status";
        ended && status && request["objectRef"]["name"] == name
    });
    Ok(of.count())
}

/// The granted rights are exactly the used ones.
pub(crate) fn check_rights(stage: &Stage) -> Result<()> {
    let account = Account::of(&stage.plane, SYSTEM, "aplomb-coder")?;
    account.settle("aplomb-coder", &EXCUSES)
}
